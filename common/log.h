// Messages of the programs for people and for journals: one line each on standard error.
//
// The formatting is spdlog's, hidden behind this header. Commands print their results through their
// streams, not here.
//   LogWarning(absl::StrCat("cannot write ", path, "; the log of rank ", rank, " stops here"));
#pragma once

#include <string_view>

namespace am {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// From AMCTL_LOG (debug, info, warning, error); the default shows warnings and errors.
void InitLogFromEnvironment(LogLevel standard = LogLevel::kWarning);

void LogDebug(std::string_view message);
void LogInfo(std::string_view message);
void LogWarning(std::string_view message);
void LogError(std::string_view message);

}  // namespace am
