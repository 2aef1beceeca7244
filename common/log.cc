#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/file.h"

namespace am {
namespace {

spdlog::level::level_enum Level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::warn;
}

spdlog::logger& Logger() {
  static spdlog::logger logger = [] {
    spdlog::logger made("amctl", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    made.set_level(spdlog::level::warn);
    return made;
  }();
  return logger;
}

void Write(LogLevel level, std::string_view message) {
  Logger().log(Level(level), "{}", spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace

void InitLogFromEnvironment(LogLevel standard) {
  std::string wish = Getenv("AMCTL_LOG");
  if (wish == "debug") standard = LogLevel::kDebug;
  if (wish == "info") standard = LogLevel::kInfo;
  if (wish == "warning") standard = LogLevel::kWarning;
  if (wish == "error") standard = LogLevel::kError;
  Logger().set_level(Level(standard));
}

void LogDebug(std::string_view message) { Write(LogLevel::kDebug, message); }
void LogInfo(std::string_view message) { Write(LogLevel::kInfo, message); }
void LogWarning(std::string_view message) { Write(LogLevel::kWarning, message); }
void LogError(std::string_view message) { Write(LogLevel::kError, message); }

}  // namespace am
