#include "launcher/plan/flops.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>

namespace am::plan {
namespace {

using model::Attention;
using model::Layer;
using model::ModelShape;
using model::Role;
using model::Scan;
using model::Weight;

constexpr double kTrained = 6, kForwardOnly = 2;

// Keys that a query is counted with.
enum class Keys {
  kHalf,   // half of the sequence, whatever the windows
  kMet,    // half of it in full attention, else those that it meets
  kExact,  // those that it meets, to the last: (S + 1) / 2 in full attention
  kPicked  // as many as the indexer picks, in short sequences too
};

// What the formula of a family does otherwise than to count each product of the shape once.
struct Rules {
  std::string_view family;
  Keys keys = Keys::kMet;
  bool routers = true;
  bool mtp = true;
  bool published = true;  // false: no formula; the count is ours
  // Each layer is counted with an indexer of its own, trained (GLM-5).
  bool indexer_everywhere = false;
  // Projections and pairs of attention by the hidden width, convolutions left out (Nemotron-H).
  bool nemotron = false;
  double scan = 4 * kTrained;  // FLOPs a number of the scan's state
  double mixing = 0;  // multiply-adds of residual streams, a layer: times streams² · hidden
  double indexer = kForwardOnly;  // FLOPs a multiply-add: picks have no gradient
};

constexpr Rules kOwnCount = {.published = false};

constexpr Rules kFamilies[] = {
    {.family = "llama", .keys = Keys::kHalf},
    {.family = "qwen2", .keys = Keys::kHalf},
    {.family = "qwen3", .keys = Keys::kHalf},
    {.family = "qwen3_moe", .keys = Keys::kHalf, .routers = false},
    {.family = "glm4_moe", .keys = Keys::kHalf, .routers = false, .mtp = false},
    {.family = "deepseek_v3", .keys = Keys::kHalf, .routers = false},
    {.family = "glm_moe_dsa",
     .keys = Keys::kPicked,
     .routers = false,
     .indexer_everywhere = true,
     .indexer = kTrained},
    {.family = "gpt_oss", .keys = Keys::kExact, .routers = false},
    {.family = "nemotron_h", .keys = Keys::kHalf, .nemotron = true, .scan = 7 * 3},
    {.family = "qwen3_next", .keys = Keys::kHalf, .routers = false},
    {.family = "qwen3_5", .keys = Keys::kHalf, .routers = false},
    {.family = "qwen4_exp", .keys = Keys::kExact, .mtp = false},
    {.family = "deepseek_v4", .keys = Keys::kExact, .mtp = false, .mixing = 2},
    {.family = "deepseek_v41", .keys = Keys::kExact, .mtp = false},
};

Rules RulesOf(const ModelShape& shape) {
  for (const Rules& rules : kFamilies) {
    if (rules.family == shape.family) return rules;
  }
  return kOwnCount;
}

// ---- the older formulas, as a change of the shape or of the rules

// DeepSeek-V3's formula took every layer for one with experts and one shared expert.
void CountOneSharedExpert(ModelShape& shape) {
  auto sparse = std::find_if(shape.kinds.begin(), shape.kinds.end(),
                             [](const Layer& layer) { return layer.has_experts(); });
  if (sparse == shape.kinds.end()) return;
  int64_t width = 0;
  for (const Weight& weight : sparse->weights) {
    if (weight.role == Role::kExpert) width = std::max(width, std::min(weight.in, weight.out));
  }
  for (Weight& weight : sparse->weights) {
    if (weight.role != Role::kSharedExpert || width == 0) continue;
    (weight.in == shape.hidden_size ? weight.out : weight.in) = width;
  }
  std::fill(shape.layers.begin(), shape.layers.end(),
            static_cast<int>(sparse - shape.kinds.begin()));
}

// GPT-OSS's took the hidden width over the heads for the width of a head.
void NarrowHeads(ModelShape& shape) {
  for (Layer& layer : shape.kinds) {
    if (!layer.attention || layer.attention->heads == 0) continue;
    int64_t old_dim = layer.attention->key_dim;
    int64_t new_dim = shape.hidden_size / layer.attention->heads;
    for (Weight& weight : layer.weights) {
      if (weight.role != Role::kAttention || weight.in == 0 || old_dim == 0) continue;
      int64_t& width = weight.out == shape.hidden_size ? weight.in : weight.out;
      width = width / old_dim * new_dim;
    }
    layer.attention->key_dim = layer.attention->value_dim = new_dim;
  }
}

void GoBackToRecorded(const FlopsInput& input, ModelShape& shape, Rules& rules) {
  if (shape.family == "deepseek_v3") CountOneSharedExpert(shape);
  // The run on GB200 is younger than those on H100, and so is its formula.
  if (shape.family == "gpt_oss" && !absl::StrContains(input.gpu, "B200")) NarrowHeads(shape);
  // So is the run that trained multi-token prediction.
  if (shape.family == "nemotron_h" && input.mtp_depths == 0) rules.scan = 2 * 3;
}

// ---- counting

std::string Number(double value) {
  return value == std::floor(value) ? absl::StrFormat("%.0f", value)
                                    : absl::StrFormat("%.6g", value);
}

std::string_view NameOf(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "embedding";
    case Role::kHead:
      return "output projection";
    case Role::kAttention:
      return "attention projections";
    case Role::kMixer:
      return "linear attention projections";
    case Role::kMlp:
      return "feed-forward";
    case Role::kExpert:
      return "experts";
    case Role::kSharedExpert:
      return "shared experts";
    case Role::kRouter:
      return "routers";
    case Role::kNorm:
    case Role::kOther:
      return "other products";
  }
  return "other products";
}

class Counter {
 public:
  Counter(const ModelShape& shape, const Rules& rules, int64_t seq_length)
      : shape_(shape), rules_(rules), seq_(seq_length), length_(static_cast<double>(seq_length)) {}

  void Count(int64_t mtp_depths);

  std::vector<Term> terms;

 private:
  // `macs` as a product, for the formula: "32 layers · 4096 · 14336".
  void Add(std::string_view name, double flops, double times, double macs,
           const std::string& product);
  void Weights(const std::vector<Weight>& weights, const Layer* layer, double times);
  void WholeLayer(const Layer& layer, double times);
  void Pairs(const Attention& attention, double times);
  void Indexing(const Attention& attention, double times);
  void IndexerOfItsOwn(double times);
  void NemotronAttention(const Attention& attention, double times);
  void StateSpace(const Scan& scan, double times);
  double KeysOf(const Attention& attention) const;
  // Entries of `group` keys that a query meets on average.
  double EntriesOf(double group) const;

  const ModelShape& shape_;
  const Rules& rules_;
  int64_t seq_;
  double length_;
};

void Counter::Add(std::string_view name, double flops, double times, double macs,
                  const std::string& product) {
  if (times * macs == 0) return;
  auto term = std::find_if(terms.begin(), terms.end(),
                           [&](const Term& known) { return known.name == name; });
  if (term == terms.end()) term = terms.insert(term, {.name = std::string(name)});
  term->value += flops * times * macs;
  std::string piece = absl::StrCat(Number(flops), " · ",
                                   times == 1 ? "" : absl::StrCat(Number(times), " · "), product);
  absl::StrAppend(&term->formula, term->formula.empty() ? "" : " + ", piece);
}

double Counter::EntriesOf(double group) const {
  double whole = std::floor(length_ / group);
  return (group * whole * (whole - 1) / 2 + whole * (length_ - group * whole + 1)) / length_;
}

double Counter::KeysOf(const Attention& attention) const {
  bool plain = attention.window == 0 && attention.compress_ratio == 0 && attention.top_k == 0;
  switch (rules_.keys) {
    case Keys::kHalf:
      return attention.causal ? length_ / 2 : length_;
    case Keys::kMet:
      return plain && attention.causal ? length_ / 2 : KeysPerQuery(attention, seq_);
    case Keys::kExact:
      return KeysPerQuery(attention, seq_);
    case Keys::kPicked:
      return attention.top_k > 0 ? static_cast<double>(attention.top_k) : length_ / 2;
  }
  return 0;
}

void Counter::Weights(const std::vector<Weight>& weights, const Layer* layer, double times) {
  for (const Weight& weight : weights) {
    bool indexer = absl::StrContains(weight.name, "indexer");
    if (weight.role == Role::kRouter && !rules_.routers) continue;
    if (indexer && rules_.indexer_everywhere) continue;
    if (rules_.nemotron && weight.role == Role::kAttention) continue;
    if (rules_.nemotron && absl::StrContains(weight.name, "conv")) continue;
    double flops = indexer ? rules_.indexer : kTrained;
    double macs = weight.Macs();
    const Attention* attention = layer && layer->attention ? &*layer->attention : nullptr;
    if (attention && attention->compress_ratio > 0) {
      double ratio = static_cast<double>(attention->compress_ratio);
      // An entry of more keys than the sequence has is never made: no gradient comes back.
      if (ratio > length_ && absl::StrContains(weight.name, "compressor")) flops = kForwardOnly;
      // The key of an entry: once for all of its keys.
      if (absl::EndsWith(weight.name, "indexer.k_proj")) {
        macs *= std::floor(length_ / ratio) / length_;
      }
    }
    std::string uses = weight.uses == 1 ? "" : absl::StrCat(Number(weight.uses), " · ");
    Add(indexer ? "indexer" : NameOf(weight.role), flops, times, macs,
        absl::StrCat(uses, weight.in, " · ", weight.out));
  }
}

void Counter::Pairs(const Attention& attention, double times) {
  double keys = KeysOf(attention);
  double width = static_cast<double>(attention.heads * (attention.key_dim + attention.value_dim));
  Add("attention pairs", kTrained, times, keys * width,
      absl::StrCat(Number(keys), " keys · ", attention.heads, " · (", attention.key_dim, " + ",
                   attention.value_dim, ")"));
}

void Counter::Indexing(const Attention& attention, double times) {
  if (attention.index_heads == 0 || rules_.indexer_everywhere) return;
  double group = static_cast<double>(std::max(attention.compress_ratio, attention.block));
  double entries = EntriesOf(std::max(group, 1.0));
  Add("indexer", rules_.indexer, times,
      entries * static_cast<double>(attention.index_heads * attention.index_dim),
      absl::StrCat(attention.index_heads, " · ", attention.index_dim, " · ", Number(entries),
                   " entries"));
}

// GLM-5's formula gives each layer an indexer over the whole sequence, also where picks are shared.
void Counter::IndexerOfItsOwn(double times) {
  auto field = [&](const char* name) {
    auto found = shape_.config.find(name);
    return found != shape_.config.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  double heads = field("index_n_heads"), dim = field("index_head_dim");
  double rank = field("q_lora_rank"), hidden = static_cast<double>(shape_.hidden_size);
  double macs = rank * heads * dim + hidden * dim + hidden * heads + heads * dim * length_;
  Add("indexer", rules_.indexer, times, macs,
      absl::StrCat("(", Number(rank), " · ", Number(heads), " · ", Number(dim), " + ",
                   Number(hidden), " · (", Number(dim), " + ", Number(heads), ") + ", Number(heads),
                   " · ", Number(dim), " · ", Number(length_), ")"));
}

// h · (2 h + 2 h k / a + S): the width of the heads together is taken for the hidden width.
void Counter::NemotronAttention(const Attention& attention, double times) {
  double hidden = static_cast<double>(shape_.hidden_size);
  double share = static_cast<double>(attention.kv_heads) / static_cast<double>(attention.heads);
  Add(NameOf(Role::kAttention), kTrained, times, hidden * (2 * hidden + 2 * hidden * share),
      absl::StrCat(Number(hidden), " · (2 · ", Number(hidden), " + 2 · ", Number(hidden), " · ",
                   attention.kv_heads, " / ", attention.heads, ")"));
  Add("attention pairs", kTrained, times, hidden * length_,
      absl::StrCat(Number(hidden), " · ", Number(length_)));
}

void Counter::StateSpace(const Scan& scan, double times) {
  double state = static_cast<double>(scan.heads * scan.key_dim * scan.value_dim);
  double flops = scan.kind == Scan::Kind::kMamba2 && !rules_.nemotron ? 7 * 3 : rules_.scan;
  Add("scan", flops, times, state,
      absl::StrCat(scan.heads, " · ", scan.key_dim, " · ", scan.value_dim));
}

void Counter::WholeLayer(const Layer& layer, double times) {
  Weights(layer.weights, &layer, times);
  if (layer.attention) {
    if (rules_.nemotron) {
      NemotronAttention(*layer.attention, times);
    } else {
      Pairs(*layer.attention, times);
    }
    Indexing(*layer.attention, times);
    if (rules_.indexer_everywhere) IndexerOfItsOwn(times);
  }
  if (layer.scan) StateSpace(*layer.scan, times);
  double streams = static_cast<double>(shape_.residual_streams);
  Add("residual streams", kTrained, times,
      rules_.mixing * streams * streams * static_cast<double>(shape_.hidden_size),
      absl::StrCat(Number(rules_.mixing), " · ", Number(streams), "² · ", shape_.hidden_size));
}

void Counter::Count(int64_t mtp_depths) {
  Weights(shape_.embedding, nullptr, 1);
  for (size_t kind = 0; kind < shape_.kinds.size(); ++kind) {
    auto times = std::count(shape_.layers.begin(), shape_.layers.end(), static_cast<int>(kind));
    WholeLayer(shape_.kinds[kind], static_cast<double>(times));
  }
  Weights(shape_.head, nullptr, 1);
  if (mtp_depths == 0 || !rules_.mtp || !shape_.mtp) return;
  // One physical block may run at several depths, each with the output projection after it.
  Counter block(shape_, rules_, seq_);
  block.WholeLayer(*shape_.mtp, static_cast<double>(mtp_depths));
  block.Weights(shape_.head, nullptr, static_cast<double>(mtp_depths));
  Term sum{.name = "multi-token prediction"};
  for (const Term& term : block.terms) {
    sum.value += term.value;
    absl::StrAppend(&sum.formula, sum.formula.empty() ? "" : " + ", term.formula);
  }
  terms.push_back(std::move(sum));
}

// Numbers of the adapters on the modules of the model.
double AdapterNumbers(const ModelShape& shape, const Adapter& adapter) {
  double sum = 0;
  auto add = [&](const std::vector<Weight>& weights) {
    for (const Weight& weight : weights) {
      bool adapted = std::find(adapter.modules.begin(), adapter.modules.end(), weight.name) !=
                     adapter.modules.end();
      if (adapted) sum += static_cast<double>(weight.copies * (weight.in + weight.out));
    }
  };
  for (int kind : shape.layers) add(shape.kinds[static_cast<size_t>(kind)].weights);
  add(shape.head);
  return sum * static_cast<double>(adapter.rank);
}

}  // namespace

std::optional<FlopsConvention> ParseFlopsConvention(std::string_view word) {
  if (word == "current") return FlopsConvention::kCurrent;
  if (word == "recorded") return FlopsConvention::kRecorded;
  return std::nullopt;
}

FlopsEstimate ModelFlops(const ModelShape& shape, const FlopsInput& input) {
  Rules rules = RulesOf(shape);
  FlopsEstimate estimate{.convention = "current"};
  if (!rules.published) estimate.convention = "own";
  std::optional<ModelShape> older;
  if (rules.published && input.convention == FlopsConvention::kRecorded) {
    estimate.convention = "recorded";
    older = shape;
    GoBackToRecorded(input, *older, rules);
  }
  Counter counter(older ? *older : shape, rules, std::max<int64_t>(input.seq_length, 1));
  counter.Count(input.mtp_depths);
  estimate.terms = std::move(counter.terms);
  for (const Term& term : estimate.terms) estimate.per_token += term.value;
  if (!input.adapter) return estimate;
  // Frozen weights need no gradient of their own: two thirds, and the adapters' share of one.
  double adapters = AdapterNumbers(shape, *input.adapter);
  double frozen = static_cast<double>(Parameters(shape));
  double share = (2 + adapters / frozen) / 3;
  estimate.terms.push_back({.name = "gradients of frozen weights",
                            .value = estimate.per_token * (share - 1),
                            .formula = absl::StrCat("((2 + ", Number(adapters), " / ",
                                                    Number(frozen), ") / 3 - 1) · the above")});
  estimate.per_token *= share;
  return estimate;
}

FlopsEstimate ModelFlops(const Workload& workload, FlopsConvention convention) {
  return ModelFlops(*workload.shape, {.seq_length = workload.seq_length,
                                      .convention = convention,
                                      .mtp_depths = workload.mtp_depths,
                                      .adapter = workload.adapter,
                                      .gpu = workload.node.gpu});
}

}  // namespace am::plan
