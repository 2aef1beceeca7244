// ProbeMachine: cores, memory and GPUs of this machine, from /proc and /dev alone: no driver
// library is loaded, so it takes well under a millisecond.
#pragma once

#include "launcher/plan/cluster.h"

namespace am::plan {

Machine ProbeMachine();

}  // namespace am::plan
