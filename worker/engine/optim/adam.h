// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), in torch.optim's order of
// operations.
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/optim/optimizer.h"
#include "worker/engine/optim/update_loops.h"

namespace am::engine {

struct AdamMoments {
  at::Tensor exp_avg;
  at::Tensor exp_avg_sq;
  at::Tensor max_exp_avg_sq;  // amsgrad alone
};

// The update in plain operators, for tensors that are not on the CPU: the same arithmetic as
// AdamBlock.
void AdamByOperators(const OptimizerSlot& slot, const AdamMoments& moments,
                     const AdamScalars& scalars);

std::unique_ptr<Optimizer> MakeAdam(const OptimizerSpec& spec, bool decoupled_weight_decay,
                                    const std::vector<OptimizerSlot>& slots);

}  // namespace am::engine
