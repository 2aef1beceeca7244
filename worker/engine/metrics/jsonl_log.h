// JsonlLog: training.jsonl and validation.jsonl, one object a line, written as it happens: a killed
// run loses none.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace am::engine {

class JsonlLog {
 public:
  // Appends to `path`; lines past `step` of an earlier attempt move to <name>.superseded.jsonl
  // first. Throws am::Error (kIo).
  JsonlLog(const std::string& path, int64_t step);
  ~JsonlLog();
  JsonlLog(const JsonlLog&) = delete;
  void Append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  int fd_ = -1;
};

std::string UtcNow();  // 2026-01-31T12:34:56.789Z

}  // namespace am::engine
