#include "launcher/plan/step_time_layer.h"

#include <algorithm>
#include <cmath>

namespace am::plan {
namespace {

using model::Layer;
using model::Role;
using model::Weight;

// Passes over an elementwise operation backward, against forward: a norm reads two and writes one,
// a gated activation reads three and writes two, a residual adds.
constexpr double kElementwiseBackward = 1.5;
// Operation by operation in PyTorch, norms and rotary in 32 bits, against fused kernels: counted on
// a Llama layer, 589 KB a token of width 4096 against 188.
constexpr double kUnfused = 3;
constexpr double kAttentionBackward = 2.5;  // five products of the square against two
constexpr double kScanBackward = 2.5;
constexpr double kImbalance = 1.25;  // busiest rank of real routing against the mean

bool EndsWith(const Weight& weight, std::string_view ending) {
  return weight.name.ends_with(ending);
}
bool IsDown(const Weight& weight) { return EndsWith(weight, "down_proj"); }
bool IsRouted(const Weight& weight) { return weight.role == Role::kExpert; }

// The matrix whose product ends the layer. Recomputation stops before it: nothing backward needs
// what it makes (PyTorch's early stop).
const Weight* LastProduct(const Layer& layer) {
  const Weight* last = nullptr;
  int best = -1;
  for (const Weight& weight : layer.weights) {
    if (weight.in == 0) continue;
    int rank = IsRouted(weight) && IsDown(weight)                           ? 3
               : weight.role == Role::kMlp && IsDown(weight)                ? 2
               : EndsWith(weight, "o_proj") || EndsWith(weight, "out_proj") ? 1
                                                                            : -1;
    if (rank > best) {
      best = rank;
      last = &weight;
    }
  }
  return last;
}

class LayerCounter {
 public:
  LayerCounter(const Layer& layer, const Workload& workload, double tokens, const Rates& rates,
               const Calibration& calibration)
      : layer_(layer),
        workload_(workload),
        rates_(rates),
        calibration_(calibration),
        tokens_(tokens),
        tp_(workload.dims.tp),
        ep_(std::max(1, workload.dims.ep)),
        hidden_(static_cast<double>(workload.shape->hidden_size)),
        again_(workload.recompute == Recompute::kFull ? 1 : 0),
        again_elementwise_(workload.recompute == Recompute::kNone ? 0 : 1) {}

  LayerTime Count() {
    last_ = LastProduct(layer_);
    for (const Weight& weight : layer_.weights) {
      if (weight.Macs() > 0) Product(weight);
      if (workload_.adapter) AdapterOf(weight);
    }
    Elementwise();
    if (layer_.attention) SoftmaxAttention(*layer_.attention);
    if (layer_.scan) LinearScan(*layer_.scan);
    if (layer_.has_experts()) ExpertTraffic();
    TensorParallel();
    return time_;
  }

 private:
  void Spend(Cost cost, double seconds, double work) {
    time_[cost].seconds += seconds;
    time_[cost].work += work;
  }
  void Move(Cost cost, double bytes) { Spend(cost, bytes / rates_.memory, bytes); }

  // Forward, recomputation, gradient of the input, gradient of the weight.
  void Product(const Weight& weight) {
    bool routed = IsRouted(weight);
    bool replicated = weight.role == Role::kRouter || weight.role == Role::kOther;
    double uses = weight.uses * (routed && !workload_.balanced_routing ? kImbalance : 1);
    double rows = tokens_ * uses;
    double width = static_cast<double>(weight.in), out = static_cast<double>(weight.out);
    if (!replicated && !routed) (IsOutput(weight) ? width : out) /= tp_;
    double held = routed ? static_cast<double>(weight.copies) / ep_ : uses;
    double again = &weight == last_ ? 0 : again_;
    double passes = 2 + again + (workload_.adapter ? 0 : 1);
    bool quantized = replicated ? false
                     : routed   ? rates_.quantizes_experts
                                : rates_.quantizes_dense;
    double rate = routed ? (quantized ? rates_.expert_quantized : rates_.expert_products)
                         : (quantized ? rates_.quantized : rates_.products);
    double flops = 2 * rows * width * out;
    double bytes = (quantized ? 1 : rates_.element) * (rows * width + held * width * out) +
                   rates_.element * rows * out;
    Spend(routed ? Cost::kExpertProducts : Cost::kProducts,
          passes * std::max(flops / rate, bytes / rates_.memory), passes * flops);
    if (quantized) {
      // Read 16 bits, write 8 along the rows and 8 along the columns: inputs and weights forward,
      // gradients backward.
      Move(Cost::kQuantize, 4 * ((1 + again) * (rows * width + held * width * out) + rows * out));
    }
  }

  // Of those cut over tensor-parallel ranks along their input.
  static bool IsOutput(const Weight& weight) {
    return IsDown(weight) || EndsWith(weight, "o_proj") || EndsWith(weight, "out_proj");
  }

  void AdapterOf(const Weight& weight) {
    const std::vector<std::string>& modules = workload_.adapter->modules;
    if (std::find(modules.begin(), modules.end(), weight.name) == modules.end()) return;
    double in = static_cast<double>(weight.in), out = static_cast<double>(weight.out);
    // Forward: the input is read, what B makes is written and added. Backward: the gradient is read
    // for A and for B, the input's own read and added to.
    Move(Cost::kAdapters, rates_.element * tokens_ * weight.uses / tp_ *
                              ((1 + again_) * (in + 3 * out) + 4 * in + 2 * out));
  }

  double WithBackward(double forward) const {
    return forward * (1 + again_elementwise_ + kElementwiseBackward);
  }

  // Widths that norms, residuals, rotary, activations and convolutions read and write forward.
  void Elementwise() {
    double cut = 0;    // over tp by heads or width
    double whole = 0;  // by sequence, where sequence parallel
    double residuals = layer_.attention || layer_.scan ? 1 : 0;
    double streams = static_cast<double>(workload_.shape->residual_streams);
    double up = 0, down = 0;
    for (const Weight& weight : layer_.weights) {
      if (weight.role == Role::kNorm) {
        double width = static_cast<double>(weight.out);
        bool hidden = weight.out == workload_.shape->hidden_size;
        if (layer_.attention && weight.out == layer_.attention->key_dim && !hidden) {
          width *= static_cast<double>(weight.name.find("k_norm") != std::string::npos
                                           ? layer_.attention->kv_heads
                                           : layer_.attention->heads);
        }
        (hidden ? whole : cut) += 2 * width;
      }
      if (weight.in > 0 && (weight.role == Role::kMlp || weight.role == Role::kSharedExpert) &&
          weight.name.find("latent") == std::string::npos) {
        (IsDown(weight) ? down : up) +=
            static_cast<double>(IsDown(weight) ? weight.in : weight.out) * weight.uses;
      }
    }
    if (up > 0 || layer_.has_experts()) residuals += 1;
    whole += residuals * 3 * hidden_;
    // Several residual streams: each sublayer normalises, mixes and updates all of them, in 32
    // bits.
    if (streams > 1) whole += residuals * 2 * (7 * streams + 2) * hidden_;
    cut += up + down;
    if (layer_.attention) {
      const model::Attention& attention = *layer_.attention;
      double heads = static_cast<double>(attention.heads);
      double query = heads * static_cast<double>(attention.key_dim);
      // Rotary; latent attention copies queries and keys together from their two parts, and keys to
      // every head.
      cut += attention.latent
                 ? 6 * query
                 : 2 * (query + static_cast<double>(attention.kv_heads * attention.key_dim));
    }
    if (layer_.scan) {
      const model::Scan& scan = *layer_.scan;
      cut += 2 * static_cast<double>(scan.conv_channels) +
             5 * static_cast<double>(scan.heads * scan.value_dim);
    }
    const Kernels& kernels = workload_.kernels;
    double factor = kernels.fused_elementwise || kernels.compiled ? 1 : kUnfused;
    double by_sequence = workload_.sequence_parallel ? tp_ : 1;
    Move(Cost::kElementwise,
         factor * rates_.element * tokens_ * WithBackward(whole / by_sequence + cut / tp_));
  }

  void SoftmaxAttention(const model::Attention& attention) {
    double seq = static_cast<double>(workload_.seq_length);
    double keys = KeysPerQuery(attention, workload_.seq_length);
    // Kernels work in blocks of about 128 keys: half of the two at a window's ends is masked.
    if (attention.window > 0 && static_cast<double>(attention.window) < seq) {
      keys = std::min(seq / 2, keys + 128);
    }
    bool eager = workload_.kernels.attention == AttentionKernel::kEager;
    double heads = static_cast<double>(attention.heads) / tp_;
    double widths = static_cast<double>(attention.key_dim + attention.value_dim);
    double flops = 2 * keys * heads * widths * tokens_;
    double rate = rates_.Attention(attention, workload_.kernels.attention);
    double passes = 1 + again_ + kAttentionBackward;
    double core = passes * flops / rate;
    Spend(Cost::kAttention, core, passes * flops);
    if (eager) {
      // Scores and probabilities in memory, in 32 bits: written and read by scale, mask, softmax.
      Move(Cost::kAttention, 24 * tokens_ * seq * heads * (1 + again_ + kElementwiseBackward));
    }
    if (attention.index_heads > 0) {
      double seen = attention.compress_ratio > 0
                        ? seq / 2 / static_cast<double>(attention.compress_ratio)
                        : seq / 2;
      double index = 2 * seen * static_cast<double>(attention.index_heads * attention.index_dim) *
                     tokens_ * (1 + again_);
      Spend(Cost::kAttention, index / rates_.attention, index);
    }
    double kv = static_cast<double>(attention.kv_heads) / tp_ * widths;
    Move(Cost::kAttention, rates_.element * tokens_ * (heads * widths + kv) * (3 + again_));
    double cp = workload_.dims.cp;
    if (cp > 1 && workload_.bandwidth.cp > 0) {
      // Keys and values go round the ring behind the attention of the block before.
      double bytes = rates_.element * tokens_ * kv * (cp - 1) * (3 + again_);
      double ring = bytes / (workload_.bandwidth.cp * 1e9 * calibration_.links);
      Spend(Cost::kContextParallel, std::max(ring / cp, ring - core), bytes);
    }
  }

  void LinearScan(const model::Scan& scan) {
    double heads = static_cast<double>(scan.heads) / tp_;
    double key = static_cast<double>(scan.key_dim), value = static_cast<double>(scan.value_dim);
    double chunk = scan.chunk > 0 ? static_cast<double>(scan.chunk) : 64;
    bool delta = scan.kind != model::Scan::Kind::kMamba2;
    // Within a chunk as attention, between chunks through the state; a delta rule also inverts a
    // triangle of the chunk.
    double flops = 2 * tokens_ * heads *
                   (chunk / 2 * (key + value) + 2 * key * value + (delta ? chunk * key : 0));
    Spend(Cost::kScan, flops * (1 + again_ + kScanBackward) / rates_.scan,
          flops * (1 + again_ + kScanBackward));
    // The state of each chunk is written and read twice in 32 bits.
    double bytes = tokens_ / chunk * heads * key * value * 16 +
                   rates_.element * tokens_ *
                       (static_cast<double>(scan.conv_channels) / tp_ + 2 * heads * value);
    Spend(Cost::kScan, bytes * (3 + again_) / rates_.memory, 0);
  }

  void ExpertTraffic() {
    const model::ModelShape& shape = *workload_.shape;
    double experts = 0, top_k = 0, width = 0, up = 0, inner = 0;
    bool biases = false;
    for (const Weight& weight : layer_.weights) {
      if (!IsRouted(weight)) continue;
      if (weight.in == 0) {
        biases = true;
        continue;
      }
      experts = static_cast<double>(weight.copies);
      top_k = weight.uses;
      if (IsDown(weight)) {
        width = static_cast<double>(weight.out);
        inner = static_cast<double>(weight.in);
      } else {
        up += static_cast<double>(weight.out);
      }
    }
    if (experts == 0) experts = static_cast<double>(std::max<int64_t>(1, shape.num_experts));
    bool balanced = workload_.balanced_routing;
    bool deduplicated = workload_.kernels.dispatcher != Dispatcher::kTorch;
    double copies = deduplicated ? CopiesOfToken(experts, top_k, ep_, balanced) : top_k;
    // In, out, and router scores in 32 bits; each once forward, again and backward.
    double permuted = 2 * top_k * width + 2 * std::min(copies, top_k) * width + 4 * experts;
    double activation = top_k * (up + inner);
    // With biases the activation clamps, too, and is written operation by operation.
    if (biases) activation = 2 * activation + 2 * top_k * (up + width);
    Move(Cost::kExpertTraffic,
         rates_.element * tokens_ * (permuted * (2 + again_) + WithBackward(activation)));
    Spend(Cost::kExpertGaps, calibration_.expert_gap_s * (2 + again_), 2 + again_);
    if (ep_ <= 1 || workload_.bandwidth.ep <= 0) return;
    // Dispatch and combine, forward and backward; of the recomputation only the dispatch.
    double transfers = 4 + again_;
    double bytes = rates_.element * tokens_ * width * transfers;
    double away = (ep_ - 1.0) / ep_;
    double domains = workload_.bandwidth.ep_nodes;
    double link = workload_.bandwidth.ep * 1e9 * calibration_.links;
    if (domains > 1) {
      // One copy a domain over the network, then to each rank over NVLink.
      double to_domains = deduplicated ? CopiesOfToken(experts, top_k, domains, balanced) : top_k;
      double network = bytes * to_domains * (domains - 1) / domains;
      double nvlink = workload_.node.nvlink_gb_per_s * 1e9 * calibration_.links;
      double inside = nvlink > 0 ? bytes * copies / nvlink : 0;
      Spend(Cost::kAllToAll, std::max(network / link, inside), network);
    } else {
      Spend(Cost::kAllToAll, bytes * copies * away / link, bytes * copies * away);
    }
  }

  void TensorParallel() {
    if (tp_ <= 1 || workload_.bandwidth.tp <= 0) return;
    double sublayers = (layer_.attention || layer_.scan ? 1 : 0) + (HasMlp() ? 1 : 0);
    // Gather and scatter of each sublayer, or the all-reduce that is both.
    double bytes =
        2 * sublayers * rates_.element * tokens_ * hidden_ * (tp_ - 1) / tp_ * (2 + again_);
    Spend(Cost::kTensorParallel, bytes / (workload_.bandwidth.tp * 1e9 * calibration_.links),
          bytes);
  }

  bool HasMlp() const {
    return std::any_of(layer_.weights.begin(), layer_.weights.end(), [](const Weight& weight) {
      return weight.role == Role::kMlp || weight.role == Role::kSharedExpert;
    });
  }

  const Layer& layer_;
  const Workload& workload_;
  const Rates& rates_;
  const Calibration& calibration_;
  double tokens_;
  double tp_;
  double ep_;
  double hidden_;
  double again_;
  double again_elementwise_;
  const Weight* last_ = nullptr;
  LayerTime time_;
};

constexpr std::string_view kNames[] = {"dense products", "expert products", "casts to 8 bits",
                                       "attention",      "scans",           "elementwise",
                                       "expert traffic", "adapters",        "expert all-to-all",
                                       "expert gaps",    "tensor parallel", "context parallel"};
static_assert(std::size(kNames) == static_cast<size_t>(Cost::kCount));

}  // namespace

std::string_view NameOf(Cost cost) { return kNames[static_cast<size_t>(cost)]; }

double LayerTime::seconds() const {
  double sum = 0;
  for (const Spent& spent : costs) sum += spent.seconds;
  return sum;
}

void LayerTime::Add(const LayerTime& other, double times) {
  for (size_t i = 0; i < costs.size(); ++i) {
    costs[i].seconds += times * other.costs[i].seconds;
    costs[i].work += times * other.costs[i].work;
  }
}

LayerTime TimeOfLayer(const Layer& layer, const Workload& workload, double tokens,
                      const Rates& rates, const Calibration& calibration) {
  return LayerCounter(layer, workload, tokens, rates, calibration).Count();
}

}  // namespace am::plan
