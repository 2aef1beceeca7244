// engine_step MODEL_DIR [float32|bfloat16] [full|lora] [steps]: one optimizer step's time by phase,
// on random tokens of the lengths of a SQuAD micro-batch. Prints tokens/s; for profiling, not for
// comparing with a peer (compare_with_transformers.py).
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "worker/engine/comm/communicator.h"
#include "worker/engine/core/memory.h"
#include "worker/engine/loss/head_loss.h"
#include "worker/engine/model_loader.h"
#include "worker/engine/optim/optimizer.h"
#include "worker/engine/pack.h"

namespace am::engine {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Run(int argc, char** argv) {
  RankSpec spec;
  spec.model.path = argc > 1 ? argv[1] : ".";
  spec.model.torch_dtype = argc > 2 ? argv[2] : "float32";
  if (argc > 3 && std::string(argv[3]) == "lora") {
    spec.peft.emplace();
    spec.peft->target_modules = {"*_proj"};
  }
  const int steps = argc > 4 ? std::atoi(argv[4]) : 5;
  at::set_num_threads(2);
  const auto self = MakeSelfCommunicator();
  LoadedModel loaded = LoadModel(spec, {self.get(), self.get()}, "");
  const auto optimizer = MakeOptimizer(spec.optimizer, loaded.store->slots());
  std::vector<Sample> samples;
  for (const int64_t length : {75, 92, 101, 103, 104, 110, 120, 128}) {
    Sample sample;
    for (int64_t i = 0; i < length; ++i) {
      sample.input_ids.push_back((i * 7919 + length * 31) % 40000);
      sample.labels.push_back(i + 14 >= length ? (i * 31) % 40000 : -100);
    }
    samples.push_back(sample);
  }
  std::vector<const Sample*> pointers;
  for (const Sample& sample : samples) pointers.push_back(&sample);
  const PackedBatch batch = Pack(pointers, -100);
  for (int step = 0; step < steps; ++step) {
    const double t0 = Seconds();
    loaded.store->BeginPass(true, true);
    const at::Tensor hidden =
        loaded.model->Forward(batch, {.training = true}, batch.label_rows, loaded.store.get());
    const double t1 = Seconds();
    const HeadLossResult loss = HeadLoss(loaded.model->head(), hidden, batch.labels, {},
                                         1.0 / static_cast<double>(batch.labels.size(0)));
    const double t2 = Seconds();
    hidden.backward(loss.grad_hidden);
    loaded.store->EndPass();
    loaded.store->FinishGradients();
    const double t3 = Seconds();
    double squares = 0;
    for (const OptimizerSlot& slot : loaded.store->slots()) squares += SumOfSquares(slot.grad);
    const double t4 = Seconds();
    optimizer->Step(loaded.store->slots(), 1e-5, 0, 1.0);
    loaded.store->ClearGradients();
    const double t5 = Seconds();
    std::printf(
        "forward %.3f  loss %.3f  backward %.3f  norm %.3f  optimizer %.3f  step %.3f s  %.0f "
        "tokens/s (loss %.4f, norm %.4f)\n",
        t1 - t0, t2 - t1, t3 - t2, t4 - t3, t5 - t4, t5 - t0,
        static_cast<double>(batch.tokens()) / (t5 - t0),
        loss.loss_sum / static_cast<double>(batch.labels.size(0)), squares);
  }
}

}  // namespace
}  // namespace am::engine

int main(int argc, char** argv) {
  am::engine::KeepFreedMemory();
  try {
    am::engine::Run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_step: %s\n", error.what());
    return 1;
  }
}
