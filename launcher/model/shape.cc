#include "launcher/model/shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "launcher/model/config.h"
#include "launcher/model/families.h"

namespace am::model {
namespace {

using nlohmann::json;

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // where config.json names no model_type
  std::string_view family;
  FamilyFunction read;
  const char* defaults = "";  // what files leave out, as transformers' configuration class has it
};

constexpr char kGemma2[] = R"({"tie_word_embeddings": true, "head_dim": 256})";
constexpr char kGemma3[] = R"({"tie_word_embeddings": true, "head_dim": 256, "vocab_size": 262208,
                               "num_attention_heads": 8, "num_key_value_heads": 4})";

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", "llama", Llama},
    {"mistral", "MistralForCausalLM", "llama", Llama},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", Qwen2},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", Qwen3},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", Gemma2, kGemma2},
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3", Gemma3, kGemma3},
    {"gemma3_text", "Gemma3ForCausalLM", "gemma3", Gemma3, kGemma3},
    {"phi3", "Phi3ForCausalLM", "phi3", Phi3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", Qwen3Moe},
    {"mixtral", "MixtralForCausalLM", "mixtral", Mixtral},
    {"gpt_oss", "GptOssForCausalLM", "gpt_oss", GptOss},
    {"glm4_moe", "Glm4MoeForCausalLM", "glm4_moe", Glm4Moe},
    {"mimo_v2", "MiMoV2ForCausalLM", "mimo_v2", MimoV2},
    {"mimo_v2_flash", "MiMoV2FlashForCausalLM", "mimo_v2", MimoV2},
    {"laguna", "LagunaForCausalLM", "laguna", Laguna},
    {"deepseek_v3", "DeepseekV3ForCausalLM", "deepseek_v3", DeepseekV3},
    {"kimi_k2", "", "deepseek_v3", DeepseekV3},
    {"deepseek_v32", "DeepseekV32ForCausalLM", "glm_moe_dsa", GlmMoeDsa},
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM", "glm_moe_dsa", GlmMoeDsa},
    {"deepseek_v4", "DeepseekV4ForCausalLM", "deepseek_v4", DeepseekV4},
    {"deepseek_v41", "DeepseekV41ForCausalLM", "deepseek_v41", DeepseekV41},
    {"deepseek_v41_text", "", "deepseek_v41", DeepseekV41},
    {"qwen3_next", "Qwen3NextForCausalLM", "qwen3_next", Qwen3Next},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5", Qwen35},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", "qwen3_5", Qwen35},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5", Qwen35},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", "qwen3_5", Qwen35},
    {"qwen4_exp", "Qwen4ExpForConditionalGeneration", "qwen4_exp", Qwen4Exp},
    {"qwen4_exp_text", "Qwen4ExpForCausalLM", "qwen4_exp", Qwen4Exp},
    {"kimi_linear", "KimiLinearForCausalLM", "kimi_linear", KimiLinear},
    {"glm5_next", "Glm5NextForConditionalGeneration", "glm5_next", Glm5Next},
    {"glm5_next_text", "", "glm5_next", Glm5Next},
    {"nemotron_h", "NemotronHForCausalLM", "nemotron_h", NemotronH},
    {"hunyuan_image_3_moe", "HunyuanImage3ForCausalMM", "hunyuan_image_3", HunyuanImage3},
    {"qwen_image21", "QwenImage21Transformer2DModel", "qwen_image", QwenImage},
};

std::string TextOf(const json& config, const char* key) {
  auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string ArchitectureOf(const json& config) {
  auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->empty() || !found->front().is_string())
    return "";
  return found->front().get<std::string>();
}

// Letters that must change, enough to find a neighbour's name.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

absl::Status UnknownFamily(const std::string& type, const std::string& architecture) {
  std::string name = type.empty() ? architecture : type;
  if (name.empty()) {
    return absl::InvalidArgumentError("model_type: is missing, and so are the architectures");
  }
  if (name.size() > 100) name.resize(100);
  std::string nearest;
  size_t least = SIZE_MAX;
  for (const Family& family : kFamilies) {
    std::string_view known = type.empty() ? family.architecture : family.model_type;
    size_t distance = known.empty() ? SIZE_MAX : Distance(name, known);
    if (distance < least) {
      least = distance;
      nearest = std::string(known);
    }
  }
  return absl::UnimplementedError(absl::StrCat("the weights of the model family ", name,
                                               " are not known; the nearest known is ", nearest));
}

const Family* FindFamily(const std::string& type, const std::string& architecture) {
  for (const Family& family : kFamilies) {
    bool found = type.empty() ? !architecture.empty() && family.architecture == architecture
                              : family.model_type == type;
    if (found) return &family;
  }
  return nullptr;
}

// What no single key can show.
absl::Status CheckWhole(const ModelShape& shape) {
  if (shape.experts_per_token > shape.num_experts) {
    return absl::InvalidArgumentError(absl::StrCat("num_experts_per_tok: ", shape.experts_per_token,
                                                   " of ", shape.num_experts, " experts"));
  }
  for (const Layer& kind : shape.kinds) {
    if (kind.attention && kind.attention->heads % kind.attention->kv_heads != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("num_key_value_heads: ", kind.attention->kv_heads,
                       " does not divide num_attention_heads ", kind.attention->heads));
    }
    if (kind.scan && kind.scan->heads % kind.scan->groups != 0) {
      return absl::InvalidArgumentError(absl::StrCat("of a scan, ", kind.scan->groups,
                                                     " key heads do not divide ", kind.scan->heads,
                                                     " value heads"));
    }
  }
  // Sums stay far from overflow for every model that could be built.
  constexpr double kMost = 1e17;
  double sum = 0;
  auto add = [&](const std::vector<Weight>& weights) {
    for (const Weight& weight : weights) {
      sum += static_cast<double>(std::max<int64_t>(weight.copies, 1)) *
             static_cast<double>(weight.out) * static_cast<double>(std::max<int64_t>(weight.in, 1));
    }
  };
  add(shape.embedding);
  add(shape.head);
  for (int kind : shape.layers) add(shape.kinds[static_cast<size_t>(kind)].weights);
  if (shape.mtp) add(shape.mtp->weights);
  for (const Layer& tower : shape.towers) add(tower.weights);
  if (sum <= kMost) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("hidden_size: the numbers of config.json make a model of ", sum,
                   " parameters; one of them must be wrong"));
}

// The sum over the language model.
template <typename Sum, typename Of>
Sum OverText(const ModelShape& shape, Of of) {
  auto add = [&](const std::vector<Weight>& weights) {
    Sum sum = 0;
    for (const Weight& weight : weights) sum += of(weight);
    return sum;
  };
  Sum sum = add(shape.embedding) + add(shape.head);
  std::vector<Sum> of_kind;
  for (const Layer& kind : shape.kinds) of_kind.push_back(add(kind.weights));
  for (int kind : shape.layers) sum += of_kind[static_cast<size_t>(kind)];
  return sum;
}

}  // namespace

absl::StatusOr<ModelShape> ShapeOf(const json& config) {
  if (!config.is_object()) return absl::InvalidArgumentError("is no JSON object");
  const std::string part = TextPartKey(config);
  const json* text = part.empty() ? &config : &config[part];
  const std::string path = part.empty() ? "" : part + ".";
  // The outer name of a multimodal model says more than its text part's, where it is known.
  std::string type = TextOf(config, "model_type");
  std::string architecture = ArchitectureOf(config);
  const Family* family = FindFamily(type, architecture);
  if (!family && text != &config) {
    family = FindFamily(TextOf(*text, "model_type"), ArchitectureOf(*text));
  }
  if (!family) return UnknownFamily(type, architecture);

  ModelShape shape;
  shape.family = std::string(family->family);
  shape.config = json::object();
  if (*family->defaults) shape.config = json::parse(family->defaults);
  shape.config.update(*text);
  if (!text->contains("tie_word_embeddings") && config.contains("tie_word_embeddings")) {
    shape.config["tie_word_embeddings"] = config["tie_word_embeddings"];
  }
  absl::Status status;
  Fields fields(shape.config, status, path);
  family->read(fields, shape);
  Fields outer(config, status);
  ReadTowers(outer, shape);
  if (!status.ok()) return status;
  if (absl::Status whole = CheckWhole(shape); !whole.ok()) return whole;
  return shape;
}

bool Layer::has_experts() const {
  return std::any_of(weights.begin(), weights.end(),
                     [](const Weight& weight) { return weight.role == Role::kExpert; });
}

int64_t Numbers(const Layer& layer) {
  int64_t sum = 0;
  for (const Weight& weight : layer.weights) sum += weight.Numbers();
  return sum;
}

double Macs(const Layer& layer) {
  double sum = 0;
  for (const Weight& weight : layer.weights) sum += weight.Macs();
  return sum;
}

bool IsTable(const Weight& weight) {
  return weight.role == Role::kOther && weight.uses == 0 && !weight.linear && weight.in > 0;
}

int64_t Parameters(const ModelShape& shape) {
  int64_t sum = OverText<int64_t>(shape, [&](const Weight& weight) {
    return IsTable(weight) && !shape.tables_counted ? 0 : weight.Numbers();
  });
  if (!shape.towers_counted) return sum;
  for (const Layer& tower : shape.towers) sum += Numbers(tower);
  return sum;
}

int64_t ActiveParameters(const ModelShape& shape) {
  if (shape.num_experts == 0) return Parameters(shape);
  return std::llround(OverText<double>(shape, [](const Weight& weight) -> double {
    if (IsTable(weight)) return 0;
    double numbers = static_cast<double>(weight.Numbers());
    bool routed = weight.role == Role::kExpert && weight.copies > 0;
    return routed ? numbers * weight.uses / static_cast<double>(weight.copies) : numbers;
  }));
}

double KeysPerQuery(const Attention& attention, int64_t seq) {
  if (seq <= 0) return 0;
  double length = static_cast<double>(seq);
  // Sum over positions j = 1..count of min(j, most).
  auto capped = [](double count, double most) {
    double rising = std::min(count, most);
    return rising * (rising + 1) / 2 + (count - rising) * most;
  };
  // Sum over positions j = 1..seq of min(floor(j / group), most): each whole group of positions
  // adds one, which the unfinished group at the end sees too.
  auto grouped = [&](double group, double most) {
    double whole = std::floor(length / group);
    double last = std::min(whole, most);
    return group * (capped(whole, most) - last) + (length - whole * group + 1) * last;
  };
  double window = attention.window > 0 ? static_cast<double>(attention.window) : length;
  if (!attention.causal) return (2 * capped(length, window) - length) / length;
  double picked = attention.top_k > 0 ? static_cast<double>(attention.top_k) : length;
  if (attention.compress_ratio > 0) {
    double ratio = static_cast<double>(attention.compress_ratio);
    return (capped(length, window) + grouped(ratio, picked)) / length;
  }
  if (attention.top_k > 0 && attention.block > 1) {
    double block = static_cast<double>(attention.block);
    double whole = std::floor(length / block), rest = length - whole * block;
    double tails = whole * block * (block - 1) / 2 + rest * (rest + 1) / 2;
    return (block * grouped(block, std::floor(picked / block)) + tails) / length;
  }
  return capped(length, std::min(window, picked)) / length;
}

}  // namespace am::model
