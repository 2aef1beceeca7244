#include "launcher/plan/activations.h"

#include <algorithm>
#include <string>

namespace am::plan {
namespace {

using model::Role;
using model::Scan;
using model::Weight;

// Copies that the fullest rank of an ep group gets over the average, where a trained router
// decides: an assumption. Only a collapsed router sends a rank more; balanced ones stay near 1.
constexpr double kUnevenRouting = 1.5;

bool EndsWith(std::string_view text, std::string_view end) { return text.ends_with(end); }

// The last matrix of an attention or feed-forward network: its input is made inside of it.
bool IsOutput(const Weight& weight) {
  for (std::string_view end :
       {"o_proj", "out_proj", "down_proj", "o_b_proj", "wo_b", "fc2", "dense"})
    if (EndsWith(weight.name, end)) return true;
  return false;
}

class Counter {
 public:
  Counter(const Workload& workload, const model::Layer& layer)
      : workload_(workload),
        layer_(layer),
        hidden_(static_cast<double>(workload.shape->hidden_size)),
        bytes_(ActivationBytes(workload)),
        expert_bytes_(workload.precision == Precision::kFp8     ? 1
                      : workload.precision == Precision::kMxfp8 ? 1 + 1 / 32.0
                                                                : bytes_),
        input_bytes_(workload.kernels.quantized_dense ? expert_bytes_ : bytes_),
        fused_(workload.kernels.fused_elementwise || OnCpu(workload)) {}

  LayerActivations Count() {
    double streams = static_cast<double>(std::max<int64_t>(1, workload_.shape->residual_streams));
    kept_.input = streams * hidden_ * bytes_;
    if (streams > 1) {
      // A mixer before attention and one before the feed-forward network; each keeps all streams.
      Part(LayerPart::kStreams).whole = 2 * kept_.input * (fused_ ? 1 : 2);
    }
    Norms();
    if (layer_.attention) AttentionCore(*layer_.attention);
    if (layer_.scan) ScanCore(*layer_.scan);
    Projections();
    FeedForward(Role::kMlp);
    FeedForward(Role::kSharedExpert);
    Experts();
    Selective();
    return kept_;
  }

 private:
  Saved& Part(LayerPart part) { return kept_.parts[static_cast<size_t>(part)]; }

  // Whether backward needs the input of a matrix.
  bool NeedsInput(const Weight& weight) const {
    if (!workload_.adapter) return true;
    const std::vector<std::string>& modules = workload_.adapter->modules;
    return std::find(modules.begin(), modules.end(), weight.name) != modules.end();
  }

  // Adapted matrices keep what lies between A and B.
  void AddAdapter(const Weight& weight, double copies, Saved& part) const {
    if (workload_.adapter && NeedsInput(weight))
      part.split += copies * static_cast<double>(workload_.adapter->rank) * bytes_;
  }

  // What a norm of one number keeps: what it read; unfused, a float32 copy of that and, where its
  // weight is trained, the normalised value.
  double NormBytes() const {
    if (fused_) return bytes_;
    return 4 + (workload_.adapter ? 0 : bytes_);
  }

  void Norms() {
    for (const Weight& weight : layer_.weights) {
      if (weight.role != Role::kNorm || weight.in > 0) continue;
      double width = static_cast<double>(weight.out * weight.copies);
      if (EndsWith(weight.name, ".bias")) continue;
      if (layer_.attention && weight.name.find("q_norm") != std::string::npos) {
        int64_t all = layer_.attention->heads * layer_.attention->key_dim;
        Part(LayerPart::kNorms).split += static_cast<double>(all) * NormBytes();
      } else if (layer_.attention && weight.name.find("k_norm") != std::string::npos) {
        int64_t all = layer_.attention->kv_heads * layer_.attention->key_dim;
        Part(LayerPart::kNorms).split += static_cast<double>(all) * NormBytes();
      } else if (!layer_.scan || weight.out == workload_.shape->hidden_size) {
        Part(LayerPart::kNorms).whole += width * NormBytes();
      }  // else the gated norm behind a scan, which ScanCore counts
    }
  }

  void AttentionCore(const model::Attention& attention) {
    Saved& part = Part(LayerPart::kAttention);
    AttentionKernel kernel = workload_.kernels.attention;
    double heads = static_cast<double>(attention.heads);
    double seq = static_cast<double>(workload_.seq_length);
    double key_dim = static_cast<double>(attention.key_dim);
    double value_dim = static_cast<double>(attention.value_dim);
    // Plain attention repeats grouped keys and values for each query head.
    double kv_heads = kernel == AttentionKernel::kEager
                          ? heads
                          : std::max(static_cast<double>(attention.kv_heads),
                                     std::min<double>(workload_.dims.tp, heads));
    double output = heads * value_dim * bytes_;
    double values = kv_heads * value_dim;
    if (attention.latent && !fused_) {
      // Values are a view of what kv_b_proj makes, and the kernels' output for queries put together
      // from two parts is copied before it is projected.
      for (const Weight& weight : layer_.weights)
        if (EndsWith(weight.name, "kv_b_proj")) values = static_cast<double>(weight.out);
      if (kernel != AttentionKernel::kEager) part.split += output;
    }
    part.split += (heads * key_dim + kv_heads * key_dim + values) * bytes_ + output;
    if (kernel == AttentionKernel::kEager) {
      // Probabilities in float32, and once more as the value product reads them.
      part.split += heads * seq * (4 + (bytes_ < 4 ? bytes_ : 0));
    } else {
      part.split += 4 * heads;
    }
    // A gate on the output: the gate, its sigmoid's result, the product.
    for (const Weight& weight : layer_.weights) {
      if (EndsWith(weight.name, "q_proj") && attention.latent == false &&
          weight.out == 2 * attention.heads * attention.key_dim)
        part.split += (fused_ ? 2 : 3) * output;
    }
    if (attention.top_k > 0) part.whole += 4.0 * static_cast<double>(attention.top_k);
  }

  void ScanCore(const Scan& scan) {
    Saved& part = Part(LayerPart::kScan);
    double heads = static_cast<double>(scan.heads);
    double values = heads * static_cast<double>(scan.value_dim);
    double channels = static_cast<double>(scan.conv_channels);
    double chunk = static_cast<double>(std::max<int64_t>(1, scan.chunk));
    double projected = 0;
    for (const Weight& weight : layer_.weights)
      if (weight.role == Role::kMixer && weight.in > 0 && !IsOutput(weight))
        projected += static_cast<double>(weight.out * weight.copies);
    double states = 4 * values * static_cast<double>(scan.key_dim) / chunk;
    // Projections, the scan's result, and the gated norm's, which the output projection reads.
    part.split += (projected + values + values) * bytes_;
    switch (scan.kind) {
      case Scan::Kind::kMamba2:
        // The fused kernel computes convolution and states again.
        part.split += 4 * heads;
        if (!fused_) part.split += (2 * channels + values) * bytes_ + states;
        break;
      case Scan::Kind::kKimiDelta:
        part.split += 4 * heads * static_cast<double>(scan.key_dim);  // decay of each channel
        part.split += chunk * heads * bytes_;
        [[fallthrough]];
      case Scan::Kind::kGatedDelta:
        // The convolution's result, a chunk's interactions, decay and beta a head.
        part.split += channels * bytes_ + chunk * heads * bytes_ + 8 * heads;
        if (!fused_) part.split += 4 * (channels + 3 * values) + states;
        break;
    }
  }

  // Inputs of the projections of attention and mixer: what the block's norm gave, once, and what
  // further low ranks read.
  void Projections() {
    bool reads_hidden = false;
    for (const Weight& weight : layer_.weights) {
      if (weight.role != Role::kAttention && weight.role != Role::kMixer) continue;
      if (weight.in == 0) continue;
      AddAdapter(weight, static_cast<double>(weight.copies), Part(LayerPart::kInputs));
      if (IsOutput(weight) || !NeedsInput(weight)) continue;
      if (weight.in == workload_.shape->hidden_size) {
        reads_hidden = true;
      } else {
        Part(LayerPart::kInputs).whole += static_cast<double>(weight.in) * input_bytes_;
      }
    }
    if (reads_hidden) Part(LayerPart::kInputs).whole += hidden_ * input_bytes_;
  }

  struct Network {
    double in = 0, inner = 0, out = 0;  // numbers that enter, are made by, and leave to the last
    bool reads = false, keeps_product = false;
  };
  Network NetworkOf(Role role, Saved& part) const {
    Network network;
    for (const Weight& weight : layer_.weights) {
      if (weight.role != role || weight.in == 0) continue;
      bool latent = weight.name.find("latent") != std::string::npos;
      double uses = role == Role::kExpert ? weight.uses : static_cast<double>(weight.copies);
      AddAdapter(weight, uses, part);
      if (latent) {
        if (weight.in != workload_.shape->hidden_size && NeedsInput(weight))
          part.whole += static_cast<double>(weight.in) * input_bytes_;
        network.reads |= weight.in == workload_.shape->hidden_size && NeedsInput(weight);
      } else if (IsOutput(weight)) {
        network.out += uses * static_cast<double>(weight.in);
        network.keeps_product |= NeedsInput(weight);
      } else {
        network.in = uses * static_cast<double>(weight.in);
        network.inner += uses * static_cast<double>(weight.out);
        network.reads |= NeedsInput(weight);
      }
    }
    return network;
  }
  // Of the network behind its input: both branches, unfused also the activated one, and the
  // product.
  double Inside(const Network& network, double input_bytes) const {
    bool gated = network.inner > network.out * 1.5;
    double kept = network.inner * bytes_;
    if (gated && !fused_) kept += network.out * bytes_;
    if (network.keeps_product) kept += network.out * input_bytes;
    return kept;
  }

  void FeedForward(Role role) {
    Saved& part = Part(LayerPart::kMlp);
    Network network = NetworkOf(role, part);
    if (network.reads && !reads_feed_forward_) {
      part.whole += hidden_ * input_bytes_;
      reads_feed_forward_ = true;
    }
    part.split += Inside(network, input_bytes_);
  }

  void Experts() {
    if (!layer_.has_experts()) return;
    Saved& part = Part(LayerPart::kExperts);
    for (const Weight& weight : layer_.weights) {
      // Logits and probabilities of the router in float32; its input is the experts'.
      if (weight.role == Role::kRouter && weight.in > 0)
        part.whole += 8.0 * static_cast<double>(weight.out);
    }
    if (!reads_feed_forward_ && !workload_.adapter) part.whole += hidden_ * bytes_;
    Saved adapters;
    Network network = NetworkOf(Role::kExpert, adapters);
    part.routed += adapters.split;
    if (network.reads) part.routed += network.in * expert_bytes_;
    part.routed += Inside(network, expert_bytes_);
    // The results of the experts, where they are weighed behind the last product; a loop over
    // experts keeps what it adds, too.
    if (!fused_) part.routed += network.in * bytes_ * (workload_.kernels.grouped_experts ? 1 : 2);
  }

  // Selective recomputation (PyTorch's, as NeMo AutoModel and torchtitan use it): kept are the
  // block's input, attention's result, and the results of every other matrix product.
  void Selective() {
    Saved& kept = kept_.selective;
    kept.whole += kept_.input;
    if (layer_.attention) {
      kept.split += static_cast<double>(layer_.attention->heads) *
                    (static_cast<double>(layer_.attention->value_dim) * bytes_ + 4);
    }
    bool keep = true;
    for (const Weight& weight : layer_.weights) {
      if (weight.in == 0 || weight.uses == 0) continue;
      double made = weight.uses * static_cast<double>(weight.out) * bytes_;
      if (weight.role == Role::kExpert) {
        kept.routed += made / 2;
      } else {
        if (keep) kept.split += made;
        keep = !keep;
      }
    }
  }

  const Workload& workload_;
  const model::Layer& layer_;
  const double hidden_, bytes_;
  const double expert_bytes_, input_bytes_;  // of an input that a quantised product keeps
  const bool fused_;
  bool reads_feed_forward_ = false;
  LayerActivations kept_;
};

}  // namespace

std::string_view Name(LayerPart part) {
  switch (part) {
    case LayerPart::kNorms:
      return "norms";
    case LayerPart::kInputs:
      return "projection inputs";
    case LayerPart::kAttention:
      return "attention";
    case LayerPart::kMlp:
      return "mlp";
    case LayerPart::kExperts:
      return "experts";
    case LayerPart::kScan:
      return "scan";
    case LayerPart::kStreams:
      return "residual streams";
  }
  return "";
}

Saved LayerActivations::All() const {
  Saved all;
  for (const Saved& part : parts) all += part;
  return all;
}

Saved LayerActivations::Largest() const {
  auto size = [](const Saved& saved) { return saved.whole + saved.split + saved.routed; };
  return *std::max_element(parts.begin(), parts.end(),
                           [&](const Saved& a, const Saved& b) { return size(a) < size(b); });
}

LayerActivations ActivationsOf(const Workload& workload, const model::Layer& layer) {
  return Counter(workload, layer).Count();
}

double ActivationBytes(const Workload& workload) {
  return workload.precision == Precision::kFloat32 ? 4 : 2;
}

double OfRank(const Workload& workload, const Saved& saved) {
  double tp = workload.dims.tp;
  bool uneven = workload.dims.ep > 1 && !workload.balanced_routing;
  return saved.whole / (workload.sequence_parallel ? tp : 1) + saved.split / tp +
         saved.routed / tp * (uneven ? kUnevenRouting : 1);
}

}  // namespace am::plan
