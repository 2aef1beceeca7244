#include "worker/engine/metrics/jsonl_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "common/error.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {

JsonlLog::JsonlLog(const std::string& path, int64_t step) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) throw IoError(path + ": its directory cannot be made: " + error.message());
  if (access(path.c_str(), F_OK) == 0) SupersedeLinesAfter(path, step);
  fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw IoError(path + ": cannot be written: " + std::strerror(errno));
}

JsonlLog::~JsonlLog() { close(fd_); }

void JsonlLog::Append(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw IoError(path_ + ": a line could not be written: " + std::strerror(errno));
}

std::string UtcNow() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + n, sizeof text - n, ".%03ldZ", now.tv_nsec / 1'000'000);
  return text;
}

}  // namespace am::engine
