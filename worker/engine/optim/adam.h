// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), in torch.optim's order of
// operations.
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/optim/optimizer.h"

namespace am::engine {

std::unique_ptr<Optimizer> MakeAdam(const OptimizerSpec& spec, bool decoupled_weight_decay,
                                    const std::vector<OptimizerSlot>& slots);

}  // namespace am::engine
