// FlatUnit: the parameters of one block that are trained (or those that are not), in one flat
// buffer, sharded over a group.
//
//   local master shard --cast--> local compute shard --all-gather--> full compute buffer
//   (Parameter::value are views of it) full float32 gradients (Parameter::grad are views)
//   --reduce-scatter--> local gradient shard --optimizer--> master shard
//
// With one shard (DDP, or a single rank) there is nothing to gather and gradients are all-reduced
// over the replicas instead; with a single rank nothing is communicated and gradients stay where
// the operators put them. Zhao et al. 2023 (FSDP), Rajbhandari et al. 2020.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/checkpoint/weights.h"
#include "worker/engine/comm/communicator.h"
#include "worker/engine/core/parameter.h"
#include "worker/engine/optim/optimizer.h"

namespace am::engine {

// The groups that parameters are spread over; both outlive the units.
struct ShardGroups {
  Communicator* shard = nullptr;    // holds one copy of the parameters between its members
  Communicator* replica = nullptr;  // holds the same shard
};

// Elements [begin, end) of a piece, flattened; any floating dtype, on the CPU.
using PieceSource =
    std::function<at::Tensor(const Parameter&, const ParameterPiece&, int64_t begin, int64_t end)>;

class FlatUnit {
 public:
  // master_dtype is that of trained shards; frozen ones exist in compute_dtype alone.
  FlatUnit(std::vector<Parameter*> parameters, bool trainable, ShardGroups groups,
           at::ScalarType compute_dtype, at::ScalarType master_dtype);

  void Load(const PieceSource& source);  // fills the local shard

  // Full parameters. Start posts the all-gather, Finish waits for it; Gather is both. Free drops
  // them again.
  void StartGather();
  void Gather();
  void Free();
  bool gathered() const { return gathered_; }

  // Gradients of the step: Prepare gives operators their place, StartReduce posts the sum over the
  // groups, FinishReduce waits.
  void PrepareGradients();
  void StartReduce();
  void FinishReduce();
  void ClearGradients();

  // The trained pieces of the local shard. Gradients are set after FinishReduce by
  // SetSlotGradients, in the same order.
  std::vector<OptimizerSlot> Slots() const;
  void SetSlotGradients(OptimizerSlot* slots) const;
  size_t slot_count() const { return trainable_ ? local_.size() : 0; }
  // The same pieces as chunks of the global tensors, for a checkpoint; `tensor(i)` is the flat
  // tensor to store for piece i.
  std::vector<Chunk> Chunks(const std::function<at::Tensor(size_t)>& tensor,
                            const std::string& suffix) const;

 private:
  // A piece of a parameter that falls into the local shard.
  struct LocalPiece {
    Parameter* parameter;
    const ParameterPiece* piece;
    int64_t piece_begin;  // first element, in the piece
    int64_t shard_begin;  // first element, in the local shard
    int64_t count;
  };
  struct Entry {
    Parameter* parameter;
    int64_t offset;  // in the full buffer
  };

  bool communicates() const { return groups_.shard->size() > 1 || groups_.replica->size() > 1; }
  void SetValues();

  std::vector<Entry> entries_;
  bool trainable_;
  ShardGroups groups_;
  at::ScalarType compute_dtype_;
  int64_t shard_numel_ = 0;
  std::vector<LocalPiece> local_;
  at::Tensor master_;      // [shard_numel], trained only
  at::Tensor compute_;     // [shard_numel]; the same tensor as master_ where the dtypes agree
  at::Tensor full_;        // [shard_numel * shards]; the same tensor as compute_ with one shard
  at::Tensor grad_full_;   // float32; only where gradients are communicated
  at::Tensor grad_shard_;  // float32
  std::unique_ptr<Pending> gathering_;
  std::vector<std::unique_ptr<Pending>> reducing_;
  bool gathered_ = false;
};

}  // namespace am::engine
