#include "launcher/model/shape.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "launcher/model/families.h"

namespace am::model {
namespace {

using nlohmann::json;

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // where config.json names no model_type
  std::string_view family;
  FamilyFunction read;
};

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", "llama", Llama},
    {"mistral", "MistralForCausalLM", "llama", Llama},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", Qwen2},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", Qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", "qwen3_moe", Qwen3Moe},
    {"mixtral", "MixtralForCausalLM", "mixtral", Mixtral},
    {"gpt_oss", "GptOssForCausalLM", "gpt_oss", GptOss},
    {"deepseek_v3", "DeepseekV3ForCausalLM", "deepseek_v3", DeepseekV3},
    {"kimi_k2", "", "deepseek_v3", DeepseekV3},
};

// The language model's part of a multimodal file.
constexpr const char* kTextParts[] = {"text_config", "llm_config"};

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

// Sums stay far from overflow for every model that could be built.
absl::Status CheckSize(const ModelShape& shape) {
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

template <typename Sum>
Sum OverModel(const ModelShape& shape, Sum (*of)(const Weight&)) {
  Sum sum = 0;
  auto add = [&](const std::vector<Weight>& weights, Sum times) {
    for (const Weight& weight : weights) sum += times * of(weight);
  };
  add(shape.embedding, 1);
  add(shape.head, 1);
  std::vector<Sum> times(shape.kinds.size(), 0);
  for (int kind : shape.layers) times[static_cast<size_t>(kind)] += 1;
  for (size_t kind = 0; kind < times.size(); ++kind) add(shape.kinds[kind].weights, times[kind]);
  return sum;
}

}  // namespace

absl::StatusOr<ModelShape> ShapeOf(const json& config) {
  if (!config.is_object()) return absl::InvalidArgumentError("is no JSON object");
  const json* text = &config;
  std::string path;
  for (const char* key : kTextParts) {
    auto part = config.find(key);
    if (part == config.end() || !part->is_object()) continue;
    text = &*part;
    path = absl::StrCat(key, ".");
    break;
  }
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
  shape.config = *text;
  if (!shape.config.contains("tie_word_embeddings") && config.contains("tie_word_embeddings")) {
    shape.config["tie_word_embeddings"] = config["tie_word_embeddings"];
  }
  absl::Status status;
  Fields fields(shape.config, status, path);
  family->read(fields, shape);
  if (!status.ok()) return status;
  if (absl::Status size = CheckSize(shape); !size.ok()) return size;
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

int64_t Parameters(const ModelShape& shape) {
  return OverModel<int64_t>(shape, [](const Weight& weight) { return weight.Numbers(); });
}

int64_t ActiveParameters(const ModelShape& shape) {
  return std::llround(OverModel<double>(shape, [](const Weight& weight) {
    double numbers = static_cast<double>(weight.Numbers());
    bool routed = weight.role == Role::kExpert && weight.copies > 0;
    return routed ? numbers * weight.uses / static_cast<double>(weight.copies) : numbers;
  }));
}

double KeysPerQuery(const Attention& attention, int64_t seq) {
  if (seq <= 0) return 0;
  double length = static_cast<double>(seq);
  // Sum over positions j = 1..seq of min(j, most).
  auto capped = [](double count, double most) {
    double rising = std::min(count, most);
    return rising * (rising + 1) / 2 + (count - rising) * most;
  };
  double window = attention.window > 0 ? static_cast<double>(attention.window) : length;
  if (!attention.causal) return (2 * capped(length, window) - length) / length;
  double ratio = static_cast<double>(attention.compress_ratio);
  double picked = attention.top_k > 0 ? static_cast<double>(attention.top_k) : length;
  if (ratio == 0) return capped(length, std::min(window, picked)) / length;
  // Sum of min(floor(j / ratio), top_k): each whole ratio of positions adds one, which the rest of
  // the positions see too.
  double whole = std::floor(length / ratio);
  double rest = length - whole * ratio;
  double entries = ratio * (capped(whole, picked) - std::min(whole, picked)) +
                   (rest + 1) * std::min(whole, picked);
  return (capped(length, window) + entries) / length;
}

}  // namespace am::model
