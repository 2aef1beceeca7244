// ParameterStore: all parameters of a model, placed for data parallelism, and the hooks that bring
// them to the blocks.
//
// One class serves a single rank, DDP, FSDP2 and HSDP: they differ in the sizes of the two groups
// alone. The next block is gathered while one computes, forward and backward; a block's gradients
// are summed while the block before it runs backward.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/model/causal_lm.h"
#include "worker/engine/parallel/flat_unit.h"

namespace am::engine {

struct StoreOptions {
  ShardGroups groups;
  at::ScalarType compute_dtype = at::kFloat;
  at::ScalarType master_dtype = at::kFloat;
  bool reshard_after_forward = true;
};

class ParameterStore : public ForwardHooks {
 public:
  ParameterStore(CausalLm& model, const StoreOptions& options);

  void Load(const PieceSource& source);

  // Around a pass: the root is gathered for its whole length. `last` pass of a step: backward also
  // sums the gradients.
  void BeginPass(bool training, bool last);
  void EndPass();
  // After the last pass: waits for all sums and points the slots at the gradients.
  void FinishGradients();
  void ClearGradients();
  // After the optimizer step: gathered copies are stale.
  void Invalidate();

  std::vector<OptimizerSlot>& slots() { return slots_; }
  // Chunks of the trained parameters, or of what belongs to slot i of them ("<name><suffix>").
  std::vector<Chunk> ParameterChunks() const;
  std::vector<Chunk> SlotChunks(const std::function<at::Tensor(size_t)>& tensor,
                                const std::string& suffix) const;
  // Of replicas that hold the same shard, the first one writes it.
  bool writes_shard() const { return options_.groups.replica->rank() == 0; }
  int64_t trainable_numel() const;

  Stream EnterBlock(int64_t block, Stream stream) override;
  Stream LeaveBlock(int64_t block, Stream stream) override;

 private:
  struct Unit {
    std::unique_ptr<FlatUnit> trained, frozen;
    void Each(const std::function<void(FlatUnit&)>& f) const {
      if (trained) f(*trained);
      if (frozen) f(*frozen);
    }
  };
  void BackwardEnters(int64_t block);
  void BackwardLeaves(int64_t block);
  bool keeps(int64_t block) const;

  StoreOptions options_;
  std::vector<Unit> units_;  // blocks, then the root
  std::vector<OptimizerSlot> slots_;
  int64_t trainable_numel_ = 0;
  bool training_ = false;
  bool last_ = false;
};

}  // namespace am::engine
