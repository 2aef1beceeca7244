// Any bytes as a config.json, or as changes of a known one: a shape whose sums hold, or an error.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "launcher/model/known.h"
#include "launcher/model/shape.h"

namespace {

using nlohmann::json;

// A byte picks the model, then pairs of bytes pick a place in it and what stands there.
json Changed(const uint8_t* data, size_t size) {
  static const std::vector<std::string> kNames = am::model::KnownModels();
  json config = *am::model::KnownConfig(kNames[data[0] % kNames.size()]);
  json flat = config.flatten();
  std::vector<std::string> paths;
  for (const auto& [path, value] : flat.items()) paths.push_back(path);
  static const std::vector<json> kValues = {0,
                                            1,
                                            2,
                                            3,
                                            5,
                                            7,
                                            16,
                                            64,
                                            4096,
                                            -1,
                                            1 << 20,
                                            1 << 21,
                                            int64_t{1} << 40,
                                            2.5,
                                            1e300,
                                            nullptr,
                                            true,
                                            false,
                                            "",
                                            "M*E-",
                                            "full_attention",
                                            "sliding_attention",
                                            "dense",
                                            "qwen4_exp",
                                            "nemotron_h",
                                            "laguna",
                                            json::array(),
                                            json::array({0, 1, 1}),
                                            json::array({"dense", "sparse"}),
                                            json::object()};
  for (size_t i = 1; i + 1 < size && i < 64; i += 2) {
    json changed = config;
    try {
      changed[json::json_pointer(paths[data[i] % paths.size()])] =
          kValues[data[i + 1] % kValues.size()];
    } catch (const json::exception&) {
      continue;  // an earlier change took the place away
    }
    config = std::move(changed);
  }
  return config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::model;
  if (size == 0) return 0;
  json config = data[0] == '{' ? json::parse(data, data + size, nullptr, /*allow_exceptions=*/false)
                               : Changed(data, size);
  ParseModelConfig(config).status().IgnoreError();
  absl::StatusOr<ModelShape> shape = ShapeOf(config);
  if (!shape.ok()) {
    if (shape.status().message().empty()) std::abort();
    return 0;
  }
  if (Parameters(*shape) < ActiveParameters(*shape) || ActiveParameters(*shape) < 0) std::abort();
  for (const Layer& kind : shape->kinds) {
    if (Numbers(kind) < 0 || !(Macs(kind) >= 0)) std::abort();
    if (kind.attention && !(KeysPerQuery(*kind.attention, 1000) >= 0)) std::abort();
  }
  for (size_t depth = 0; depth < shape->layers.size(); ++depth) shape->layer(depth);
  return 0;
}
