// Stochastic gradient descent with momentum (Sutskever et al. 2013), in torch.optim's order of
// operations.
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/optim/optimizer.h"
#include "worker/engine/optim/update_loops.h"

namespace am::engine {

// The update in plain operators, for tensors that are not on the CPU: the same arithmetic as
// SgdBlock. `buffer` may be undefined.
void SgdByOperators(const OptimizerSlot& slot, const at::Tensor& buffer, const SgdScalars& scalars);

std::unique_ptr<Optimizer> MakeSgd(const OptimizerSpec& spec,
                                   const std::vector<OptimizerSlot>& slots);

}  // namespace am::engine
