// ProbeMachine: cores, memory and GPUs of this machine, within the limits of its container, from
// /proc, /sys and /dev: no driver library is loaded, so it takes well under a millisecond. Only
// where those do not name the GPUs (WSL) nvidia-smi is asked.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "launcher/plan/cluster.h"

namespace am::plan {

Machine ProbeMachine();

// What `nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits` prints, a line a
// GPU: "NVIDIA H200, 143771". Lines of another form are skipped.
std::vector<Machine::Gpu> ParseNvidiaSmi(std::string_view text);

// The cores of a cgroup's cpu.max, "200000 100000" (2) or "max 100000" (nothing).
std::optional<double> ParseCpuMax(std::string_view text);

}  // namespace am::plan
