#include "worker/engine/peft/lora.h"

#include <algorithm>

#include "common/error.h"
#include "worker/engine/model/causal_lm.h"

namespace am::engine {
namespace {

// `*` and `.*` are any run of characters, `.` is any one character.
bool Glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.starts_with(".*")) return Glob(pattern.substr(1), text);
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= text.size(); ++i)
      if (Glob(pattern.substr(1), text.substr(i))) return true;
    return false;
  }
  if (text.empty() || (pattern[0] != '.' && pattern[0] != text[0])) return false;
  return Glob(pattern.substr(1), text.substr(1));
}

bool MatchesOne(const std::string& pattern, const std::string& module) {
  if (pattern.find('*') == std::string::npos) {
    const size_t dot = module.rfind('.');
    return pattern == module || pattern == module.substr(dot == std::string::npos ? 0 : dot + 1);
  }
  return Glob(pattern, module);
}

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& module) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& p) { return MatchesOne(p, module); });
}

}  // namespace

bool MatchesPeft(const PeftSpec& spec, const std::string& module) {
  if (spec.match_all_linear) return true;
  if (!spec.exclude_modules.empty()) return !MatchesAny(spec.exclude_modules, module);
  if (spec.target_modules.empty()) return MatchesOne("*_proj", module);
  return MatchesAny(spec.target_modules, module);
}

std::vector<std::string> AttachLora(CausalLm& model, const PeftSpec& spec) {
  if (spec.dim <= 0)
    throw UserError("peft.dim: " + std::to_string(spec.dim) + " must be at least 1");
  std::vector<std::string> adapted, all;
  for (Linear* linear : model.Linears()) {
    auto lora = std::make_unique<Lora>();
    lora->rank = spec.dim;
    lora->scale = spec.alpha / static_cast<double>(spec.dim);
    lora->dropout = spec.dropout;
    lora->dropout_pre = spec.dropout_position == "pre";
    lora->layer = linear->layer;
    lora->site = linear->site;
    int64_t b_rows = 0;
    for (size_t i = 0; i < linear->modules.size(); ++i) {
      const std::string& module = linear->modules[i];
      all.push_back(module);
      if (!MatchesPeft(spec, module)) continue;
      adapted.push_back(module);
      const ParameterPiece& piece = linear->weight.pieces[i];
      lora->a.pieces.push_back({module + ".lora_A.weight",
                                static_cast<int64_t>(lora->targets.size()) * spec.dim, spec.dim});
      lora->b.pieces.push_back({module + ".lora_B.weight", b_rows, piece.rows});
      lora->targets.push_back({module, piece.row_begin, piece.rows, b_rows});
      b_rows += piece.rows;
    }
    if (lora->targets.empty()) continue;
    lora->a.name = lora->a.pieces.front().name;
    lora->b.name = lora->b.pieces.front().name;
    lora->a.shape = {static_cast<int64_t>(lora->targets.size()) * spec.dim, linear->in_features()};
    lora->b.shape = {b_rows, spec.dim};
    linear->lora = std::move(lora);
  }
  if (adapted.empty()) {
    const auto list = [](const std::vector<std::string>& texts, size_t most, const char* quote) {
      std::string out;
      for (size_t i = 0; i < std::min(texts.size(), most); ++i)
        out += (i ? ", " : "") + (quote + texts[i]) + quote;
      return out + (texts.size() > most ? ", ..." : "");
    };
    const bool excludes = !spec.exclude_modules.empty();
    throw UserError(std::string(excludes ? "peft.exclude_modules: " : "peft.target_modules: ") +
                    list(excludes ? spec.exclude_modules : spec.target_modules, 8, "'") +
                    (excludes ? " leaves" : " matches") + " no linear of the model; they are " +
                    list(all, 7, ""));
  }
  for (const auto& unit : model.Units())
    for (Parameter* parameter : unit)
      parameter->trainable = parameter->name.find(".lora_") != std::string::npos;
  return adapted;
}

}  // namespace am::engine
