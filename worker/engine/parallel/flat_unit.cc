#include "worker/engine/parallel/flat_unit.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "common/error.h"
#include "worker/engine/core/memory.h"

namespace am::engine {
namespace {

// Every parameter starts on a cache line and every shard is a whole number of them.
constexpr int64_t kAlign = 32;
int64_t RoundUp(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

int64_t RowSize(const Parameter& parameter) {
  return parameter.numel() / std::max<int64_t>(parameter.shape[0], 1);
}

}  // namespace

FlatUnit::FlatUnit(std::vector<Parameter*> parameters, bool trainable, ShardGroups groups,
                   at::ScalarType compute_dtype, at::ScalarType master_dtype)
    : trainable_(trainable), groups_(groups), compute_dtype_(compute_dtype) {
  int64_t offset = 0;
  for (Parameter* parameter : parameters) {
    entries_.push_back({parameter, offset});
    offset = RoundUp(offset + parameter->numel(), kAlign);
  }
  const int64_t shards = groups.shard->size();
  shard_numel_ = RoundUp(offset, kAlign * shards) / shards;
  const int64_t begin = shard_numel_ * groups.shard->rank(), end = begin + shard_numel_;
  for (const Entry& entry : entries_) {
    for (const ParameterPiece& piece : entry.parameter->pieces) {
      const int64_t row = RowSize(*entry.parameter);
      const int64_t from = entry.offset + piece.row_begin * row, to = from + piece.rows * row;
      const int64_t lo = std::max(from, begin), hi = std::min(to, end);
      if (lo < hi) local_.push_back({entry.parameter, &piece, lo - from, lo - begin, hi - lo});
    }
  }
  compute_ = ZeroPages(shard_numel_, at::TensorOptions().dtype(compute_dtype));
  if (trainable)
    master_ = master_dtype == compute_dtype
                  ? compute_
                  : ZeroPages(shard_numel_, at::TensorOptions().dtype(master_dtype));
  if (shards == 1) {
    full_ = compute_;
    SetValues();
    gathered_ = true;
  }
}

void FlatUnit::Load(const PieceSource& source) {
  for (const LocalPiece& local : local_) {
    const at::Tensor data =
        source(*local.parameter, *local.piece, local.piece_begin, local.piece_begin + local.count);
    if (trainable_) master_.narrow(0, local.shard_begin, local.count).copy_(data);
    if (!trainable_ || !master_.is_same(compute_))
      compute_.narrow(0, local.shard_begin, local.count).copy_(data);
  }
}

void FlatUnit::SetValues() {
  for (const Entry& entry : entries_)
    entry.parameter->value =
        full_.narrow(0, entry.offset, entry.parameter->numel()).view(entry.parameter->shape);
}

void FlatUnit::StartGather() {
  if (gathered_ || gathering_) return;
  full_ = at::empty({shard_numel_ * groups_.shard->size()}, compute_dtype_);
  gathering_ = groups_.shard->AllGather(full_, compute_);
}

void FlatUnit::Gather() {
  StartGather();
  if (!gathering_) return;
  std::exchange(gathering_, nullptr)->Wait();
  SetValues();
  gathered_ = true;
}

void FlatUnit::Free() {
  if (groups_.shard->size() == 1 || !gathered_) return;
  for (const Entry& entry : entries_) entry.parameter->value.reset();
  full_.reset();
  gathered_ = false;
}

void FlatUnit::PrepareGradients() {
  if (!trainable_ || !communicates() || grad_full_.defined()) return;
  grad_full_ = at::empty({shard_numel_ * groups_.shard->size()}, at::kFloat);
  for (const Entry& entry : entries_)
    entry.parameter->grad_home =
        grad_full_.narrow(0, entry.offset, entry.parameter->numel()).view(entry.parameter->shape);
}

void FlatUnit::StartReduce() {
  if (!trainable_) return;
  for (const Entry& entry : entries_) {  // what no token reached has a gradient too: zero
    bool first = false;
    if (!entry.parameter->grad.defined()) entry.parameter->GradBuffer(&first).zero_();
  }
  if (!communicates()) return;
  int64_t used = 0;
  for (const Entry& entry :
       entries_) {  // the gaps of the alignment are summed too; they must hold numbers
    if (entry.offset > used) grad_full_.narrow(0, used, entry.offset - used).zero_();
    used = entry.offset + entry.parameter->numel();
  }
  grad_full_.narrow(0, used, grad_full_.numel() - used).zero_();
  if (groups_.shard->size() > 1) {
    grad_shard_ = at::empty({shard_numel_}, at::kFloat);
    reducing_.push_back(groups_.shard->ReduceScatterSum(grad_shard_, grad_full_));
  } else {
    grad_shard_ = grad_full_;
    reducing_.push_back(groups_.replica->AllReduceSum(grad_shard_));
  }
}

void FlatUnit::FinishReduce() {
  for (auto& pending : reducing_) pending->Wait();
  const bool reduced = !reducing_.empty();
  reducing_.clear();
  if (reduced && groups_.shard->size() > 1) {
    for (const Entry& entry : entries_) {
      entry.parameter->ClearGrad();
      entry.parameter->grad_home.reset();
    }
    grad_full_.reset();
    if (groups_.replica->size() > 1) groups_.replica->AllReduceSum(grad_shard_)->Wait();
  }
}

void FlatUnit::ClearGradients() {
  for (const Entry& entry : entries_) entry.parameter->ClearGrad();
  grad_shard_.reset();
}

std::vector<OptimizerSlot> FlatUnit::Slots() const {
  std::vector<OptimizerSlot> slots;
  if (!trainable_) return slots;
  for (const LocalPiece& local : local_) {
    OptimizerSlot slot;
    slot.name = local.piece->name;
    slot.master = master_.narrow(0, local.shard_begin, local.count);
    if (!master_.is_same(compute_))
      slot.compute = compute_.narrow(0, local.shard_begin, local.count);
    slots.push_back(std::move(slot));
  }
  return slots;
}

void FlatUnit::SetSlotGradients(OptimizerSlot* slots) const {
  for (size_t i = 0; i < slot_count(); ++i) {
    const LocalPiece& local = local_[i];
    if (communicates()) {
      slots[i].grad = grad_shard_.narrow(0, local.shard_begin, local.count);
    } else {
      const int64_t begin = local.piece->row_begin * RowSize(*local.parameter) + local.piece_begin;
      slots[i].grad = local.parameter->grad.view({-1}).narrow(0, begin, local.count);
    }
  }
}

std::vector<Chunk> FlatUnit::Chunks(const std::function<at::Tensor(size_t)>& tensor,
                                    const std::string& suffix) const {
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < slot_count(); ++i) {
    const LocalPiece& local = local_[i];
    std::vector<int64_t> shape = local.parameter->shape;
    shape[0] = local.piece->rows;
    chunks.push_back({local.piece->name + suffix, std::move(shape), local.piece_begin, tensor(i)});
  }
  return chunks;
}

}  // namespace am::engine
