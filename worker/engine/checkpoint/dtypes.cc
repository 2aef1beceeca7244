// The names that dtypes have in safetensors files and in config.json.
#include <c10/core/ScalarType.h>

#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

struct Row {
  at::ScalarType dtype;
  std::string_view safetensors;
  std::string_view config;  // empty: no model is stored so
};

constexpr Row kRows[] = {
    {at::kFloat, "F32", "float32"},
    {at::kBFloat16, "BF16", "bfloat16"},
    {at::kHalf, "F16", "float16"},
    {at::kDouble, "F64", "float64"},
    {at::kBool, "BOOL", ""},
    {at::kByte, "U8", ""},
    {at::kChar, "I8", ""},
    {at::kShort, "I16", ""},
    {at::kUInt16, "U16", ""},
    {at::kInt, "I32", ""},
    {at::kUInt32, "U32", ""},
    {at::kLong, "I64", ""},
    {at::kUInt64, "U64", ""},
    {at::kComplexFloat, "C64", ""},
    {at::kFloat8_e4m3fn, "F8_E4M3", "float8_e4m3fn"},
    {at::kFloat8_e5m2, "F8_E5M2", "float8_e5m2"},
    {at::kFloat8_e4m3fnuz, "F8_E4M3FNUZ", ""},
    {at::kFloat8_e5m2fnuz, "F8_E5M2FNUZ", ""},
    {at::kFloat8_e8m0fnu, "F8_E8M0", ""},
};

}  // namespace

std::optional<at::ScalarType> DtypeFromSafetensors(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.safetensors == name) return row.dtype;
  }
  return std::nullopt;
}

std::string SafetensorsName(at::ScalarType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return std::string(row.safetensors);
  }
  return "";
}

std::optional<at::ScalarType> DtypeFromConfig(std::string_view name) {
  if (name.substr(0, 6) == "torch.") name.remove_prefix(6);
  if (name == "bf16") name = "bfloat16";
  if (name == "fp16" || name == "half") name = "float16";
  if (name == "fp32" || name == "float") name = "float32";
  for (const Row& row : kRows) {
    if (!row.config.empty() && row.config == name) return row.dtype;
  }
  return std::nullopt;
}

std::string ConfigName(at::ScalarType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return std::string(row.config);
  }
  return "";
}

}  // namespace am::engine
