#include "worker/engine/parallel/parameter_store.h"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace am::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

struct Holder : torch::CustomClassHolder {
  std::function<void()> call;
};

// The identity, which calls back when its gradients are there, before they go on.
struct HookFunction : Function<HookFunction> {
  static variable_list forward(AutogradContext* ctx, Variable residual,
                               std::optional<Variable> delta, std::function<void()> call) {
    auto holder = c10::make_intrusive<Holder>();
    holder->call = std::move(call);
    ctx->saved_data["call"] = c10::IValue::make_capsule(holder);
    ctx->saved_data["has_delta"] = delta.has_value();
    if (!delta) return {residual.view_as(residual)};
    return {residual.view_as(residual), delta->view_as(*delta)};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["call"].toCapsule())->call();
    return {grads[0], ctx->saved_data["has_delta"].toBool() ? grads[1] : Variable(), Variable()};
  }
};

Stream Hook(const Stream& stream, std::function<void()> call) {
  const auto out = HookFunction::apply(
      stream.residual,
      stream.delta.defined() ? std::optional<at::Tensor>(stream.delta) : std::nullopt,
      std::move(call));
  return {out[0], out.size() > 1 ? out[1] : at::Tensor()};
}

}  // namespace

ParameterStore::ParameterStore(CausalLm& model, const StoreOptions& options) : options_(options) {
  for (const auto& parameters : model.Units()) {
    std::vector<Parameter*> trained, frozen;
    for (Parameter* parameter : parameters)
      (parameter->trainable ? trained : frozen).push_back(parameter);
    Unit unit;
    const auto make = [&](const std::vector<Parameter*>& group, bool trainable) {
      return group.empty()
                 ? nullptr
                 : std::make_unique<FlatUnit>(group, trainable, options.groups,
                                              options.compute_dtype, options.master_dtype);
    };
    unit.trained = make(trained, true);
    unit.frozen = make(frozen, false);
    for (const Parameter* parameter : trained) trainable_numel_ += parameter->numel();
    if (unit.trained)
      for (auto& slot : unit.trained->Slots()) slots_.push_back(std::move(slot));
    units_.push_back(std::move(unit));
  }
}

int64_t ParameterStore::trainable_numel() const { return trainable_numel_; }

void ParameterStore::Load(const PieceSource& source) {
  for (const Unit& unit : units_) unit.Each([&](FlatUnit& flat) { flat.Load(source); });
}

void ParameterStore::BeginPass(bool training, bool last) {
  training_ = training;
  last_ = last;
  units_.back().Each([&](FlatUnit& flat) {
    flat.Gather();
    if (training) flat.PrepareGradients();
  });
  units_.front().Each([](FlatUnit& flat) { flat.StartGather(); });
}

void ParameterStore::EndPass() {
  if (training_ && last_) units_.back().Each([](FlatUnit& flat) { flat.StartReduce(); });
  if (!training_) units_.back().Each([](FlatUnit& flat) { flat.Free(); });
}

// Gathered parameters stay where the next use is near: the last block (backward starts there), or
// all when not resharding.
bool ParameterStore::keeps(int64_t block) const {
  if (!training_) return false;
  return !options_.reshard_after_forward || block + 2 == static_cast<int64_t>(units_.size());
}

Stream ParameterStore::EnterBlock(int64_t block, Stream stream) {
  units_[block].Each([&](FlatUnit& flat) {
    flat.Gather();
    if (training_) flat.PrepareGradients();
  });
  if (block + 2 < static_cast<int64_t>(units_.size()))
    units_[block + 1].Each([](FlatUnit& flat) { flat.StartGather(); });
  return training_ ? Hook(stream, [this, block] { BackwardLeaves(block); }) : stream;
}

Stream ParameterStore::LeaveBlock(int64_t block, Stream stream) {
  if (!keeps(block)) units_[block].Each([](FlatUnit& flat) { flat.Free(); });
  return training_ ? Hook(stream, [this, block] { BackwardEnters(block); }) : stream;
}

void ParameterStore::BackwardEnters(int64_t block) {
  units_[block].Each([](FlatUnit& flat) { flat.Gather(); });
  if (block > 0) units_[block - 1].Each([](FlatUnit& flat) { flat.StartGather(); });
}

void ParameterStore::BackwardLeaves(int64_t block) {
  units_[block].Each([this](FlatUnit& flat) {
    flat.Free();
    if (last_) flat.StartReduce();
  });
  // At most two blocks' full gradients exist at once.
  if (last_ && block + 2 < static_cast<int64_t>(units_.size()))
    units_[block + 1].Each([](FlatUnit& flat) { flat.FinishReduce(); });
}

void ParameterStore::FinishGradients() {
  size_t next = 0;
  for (const Unit& unit : units_) {
    unit.Each([](FlatUnit& flat) { flat.FinishReduce(); });
    if (!unit.trained) continue;
    unit.trained->SetSlotGradients(slots_.data() + next);
    next += unit.trained->slot_count();
  }
}

void ParameterStore::ClearGradients() {
  for (OptimizerSlot& slot : slots_) slot.grad.reset();
  for (const Unit& unit : units_) unit.Each([](FlatUnit& flat) { flat.ClearGradients(); });
}

void ParameterStore::Invalidate() {
  for (const Unit& unit : units_)
    if (unit.trained) unit.trained->Free();
  units_.back().Each([](FlatUnit& flat) { flat.Free(); });
}

std::vector<Chunk> ParameterStore::ParameterChunks() const {
  return SlotChunks([this](size_t i) { return slots_[i].master; }, "");
}

std::vector<Chunk> ParameterStore::SlotChunks(const std::function<at::Tensor(size_t)>& tensor,
                                              const std::string& suffix) const {
  std::vector<Chunk> chunks;
  size_t next = 0;
  for (const Unit& unit : units_) {
    if (!unit.trained) continue;
    const size_t first = next;
    for (Chunk& chunk : unit.trained->Chunks([&](size_t i) { return tensor(first + i); }, suffix))
      chunks.push_back(std::move(chunk));
    next += unit.trained->slot_count();
  }
  return chunks;
}

}  // namespace am::engine
