// Where the program of a rank is.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace am::agent {

// AMCTL_RANK_PROGRAM; else am-rank beside the running program, in ../libexec/amctl, or on PATH.
absl::StatusOr<std::string> FindRankProgram();

}  // namespace am::agent
