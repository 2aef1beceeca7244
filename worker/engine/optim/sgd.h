// Stochastic gradient descent with momentum (Sutskever et al. 2013), in torch.optim's order of
// operations.
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/optim/optimizer.h"

namespace am::engine {

std::unique_ptr<Optimizer> MakeSgd(const OptimizerSpec& spec,
                                   const std::vector<OptimizerSlot>& slots);

}  // namespace am::engine
