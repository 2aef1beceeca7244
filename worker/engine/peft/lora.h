// LoRA: low-rank adapters beside frozen linears. Hu et al. 2021.
//
// The adapters of the tensors that one fused linear holds (q, k and v) are stacked, so that all of
// them cost one product in and one pass out: y[:, target] += scale * dropout(x A^T) B_target^T.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/core/parameter.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

struct LoraTarget {
  std::string module;     // e.g. model.layers.0.self_attn.q_proj
  int64_t out_begin = 0;  // columns of the linear's output
  int64_t out_rows = 0;
  int64_t b_begin = 0;  // rows of B; rows of A are index * rank
};

struct Lora {
  Parameter a;  // [targets * rank, in]
  Parameter b;  // [sum of out_rows, rank]
  std::vector<LoraTarget> targets;
  int64_t rank = 0;
  double scale = 1;  // alpha / rank
  double dropout = 0;
  bool dropout_pre = false;  // on x (as peft) instead of on the adapter's output
  uint32_t layer = 0;        // keys the dropout
  uint32_t site = 0;
};

// True when a module's full path is adapted: globs of PeftSpec (docs/recipe_reference.md,
// peft.target_modules). `.` stands for any one character and `*` for any run of them; a pattern
// without `*` names a full path or its last component.
bool MatchesPeft(const PeftSpec& spec, const std::string& module);

class CausalLm;

// Attaches adapters to every linear of `model` that the spec matches and freezes everything else.
// Returns the modules adapted. Throws am::Error (kUser) that lists the linear names when nothing
// matches. Values are set later, by parallel/.
std::vector<std::string> AttachLora(CausalLm& model, const PeftSpec& spec);

}  // namespace am::engine
