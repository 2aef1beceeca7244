// The estimate against peak memories that others have published, each with its source. The bounds
// say how far off it is, rounded up; docs/memory.md has the table.
#include <gtest/gtest.h>

#include <cstdio>

#include "launcher/plan/memory.h"
#include "tests/launcher/plan/memory_models.h"

namespace am::plan {
namespace {

using testing::Llama;
using testing::OnH100;

enum class Reading { kAllocated, kReserved };  // max_memory_allocated, max_memory_reserved

// What PyTorch's allocator sees of an estimate: neither the context nor NCCL's buffers.
double AsRead(const Workload& w, Reading reading) {
  double sum = 0;
  for (const Term& term : ExplainMemory(w)) {
    bool outside = term.name == "CUDA context" || term.name == "communicators";
    bool lost = term.name == "fragmentation" && reading == Reading::kAllocated;
    if (!outside && !lost) sum += term.value;
  }
  return sum;
}

struct Published {
  const char* name;
  Workload workload;
  double measured_gib;
  Reading reading;
  double least, most;  // of estimate / measured
};

// torchtitan, benchmarks/llama3_h100_202412_torchtitan.md (github.com/pytorch/torchtitan): float32
// parameters computed with in bfloat16, AdamW in float32, sequences of 8,192 unless said.
Workload Torchtitan(const testing::LlamaSize& size, int shards, int64_t local_batch, int64_t seq) {
  Workload w = OnH100(Llama(size), shards, seq, local_batch);
  w.bytes.resident = 4;
  w.bytes.master = 0;
  w.kernels.attention = AttentionKernel::kFlash;
  w.kernels.compiled = true;
  w.recompute = Recompute::kFull;
  return w;
}

Workload Torchtitan8B(int shards, bool compiled) {
  Workload w = Torchtitan(testing::kLlama8B, shards, 2, 8192);
  w.recompute = Recompute::kSelective;
  w.kernels.compiled = compiled;
  w.kernels.fused_elementwise = compiled;
  return w;
}

Workload TorchtitanContext(int shards, int cp) {
  Workload w = Torchtitan(testing::kLlama8B, shards, 1, 32768 * cp);
  w.dims.cp = cp;
  return w;
}

Workload Torchtitan70B() {
  Workload w = Torchtitan(testing::kLlama70B, 32, 16, 8192);
  w.dims.tp = 8;
  w.sequence_parallel = true;
  return w;
}

// As many micro-batches as stages, torchtitan's default then.
Workload Torchtitan405B(int virtual_stages) {
  Workload w = Torchtitan(testing::kLlama405B, 8, 32, 8192);
  w.dims.tp = 8;
  w.dims.pp = 8;
  w.sequence_parallel = true;
  w.virtual_stages = virtual_stages;
  w.micro_batch_size = 4 / virtual_stages;
  w.keeps_gathered = true;
  w.keeps_full_gradients = true;
  return w;
}

// NeMo AutoModel, docs/guides/gradient-checkpointing.md (github.com/NVIDIA-NeMo/Automodel):
// Llama 3.2 1B, bfloat16 throughout, 8 sequences of 2,048.
Workload AutoModel1B(int shards) {
  Workload w = OnH100(Llama(testing::kLlama1B), shards, 2048, 8);
  w.bytes = {.parameter = 2, .gradient = 2, .master = 0, .moment1 = 2, .moment2 = 2};
  w.kernels.attention = AttentionKernel::kFlash;
  return w;
}

// torchtune's README of September 2024 (github.com/pytorch/torchtune) and
// recipes/configs/llama3_1/8B_lora_single_device.yaml: Llama 3.1 8B in bfloat16 on one GPU, 2
// sequences of 2,048, chunked loss, compiled. That the larger GPU keeps all activations and the
// smaller recomputes them is our reading of the two figures.
Workload Torchtune8B(bool recompute) {
  Workload w = OnH100(Llama(testing::kLlama8B), 1, 2048, 2);
  w.bytes = {.parameter = 2, .gradient = 2, .master = 0, .moment1 = 2, .moment2 = 2};
  w.adapter = Adapter{.rank = 8,
                      .modules = {"self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj",
                                  "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}};
  w.kernels.attention = AttentionKernel::kFlash;
  w.kernels.fused_loss = true;
  w.recompute = recompute ? Recompute::kFull : Recompute::kNone;
  return w;
}

std::vector<Published> Table() {
  std::vector<Published> table;
  auto add = [&](const char* name, Workload w, double measured, Reading reading, double least,
                 double most) {
    table.push_back({name, std::move(w), measured, reading, least, most});
  };
  const Reading reserved = Reading::kReserved, allocated = Reading::kAllocated;
  add("8B, FSDP 8, selective", Torchtitan8B(8, false), 82.4, reserved, 0.88, 1.12);
  add("8B, FSDP 8, selective, compiled", Torchtitan8B(8, true), 77.0, reserved, 0.88, 1.12);
  add("8B, FSDP 128, selective", Torchtitan8B(128, false), 67.0, reserved, 0.88, 1.12);
  add("8B, FSDP 128, selective, compiled", Torchtitan8B(128, true), 62.0, reserved, 0.88, 1.12);
  add("8B, FSDP 8, 32k, full", TorchtitanContext(8, 1), 83.9, reserved, 0.88, 1.12);
  add("8B, FSDP 4, CP 2, 64k, full", TorchtitanContext(4, 2), 84.2, reserved, 0.88, 1.12);
  add("8B, CP 8, 256k, full", TorchtitanContext(1, 8), 84.5, reserved, 0.88, 1.12);
  add("70B, FSDP 32, TP 8, full", Torchtitan70B(), 71.9, reserved, 0.8, 1.12);
  add("405B, FSDP 8, TP 8, PP 8, full", Torchtitan405B(1), 82.5, reserved, 0.88, 1.12);
  add("405B, the same, interleaved", Torchtitan405B(2), 72.7, reserved, 0.88, 1.12);
  add("1B, one GPU", AutoModel1B(1), 53.03, allocated, 0.88, 1.12);
  add("1B, FSDP 8", AutoModel1B(8), 47.59, allocated, 0.88, 1.12);
  Workload w = AutoModel1B(8);
  w.recompute = Recompute::kFull;
  add("1B, FSDP 8, full", w, 33.06, allocated, 0.88, 1.12);
  w.kernels.fused_loss = true;
  add("1B, FSDP 8, full, fused loss", w, 7.30, allocated, 0.7, 1.12);
  add("8B, LoRA", Torchtune8B(false), 30.3, allocated, 0.88, 1.12);
  add("8B, LoRA, full", Torchtune8B(true), 16.2, allocated, 0.88, 1.12);
  w = Torchtune8B(true);
  w.bytes.frozen = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  add("8B, QLoRA, full", w, 7.4, allocated, 0.88, 1.12);
  return table;
}

TEST(Memory, IsNearWhatOthersHaveMeasured) {
  for (const Published& row : Table()) {
    double estimate = AsRead(row.workload, row.reading);
    double ratio = estimate / row.measured_gib;
    std::printf("%-34s measured %6.2f GiB  estimate %6.2f GiB  %+5.1f %%\n", row.name,
                row.measured_gib, estimate, 100 * (ratio - 1));
    EXPECT_GE(ratio, row.least) << row.name;
    EXPECT_LE(ratio, row.most) << row.name;
  }
}

}  // namespace
}  // namespace am::plan
