// training.jsonl and validation.jsonl after a resume: the lines of steps that are taken again move
// aside.
#include <filesystem>

#include "worker/engine/checkpoint/checkpoint_dir.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Lines without a step, or that are no JSON (cut short by a crash), cannot be placed: they go aside
// too.
bool Stays(const std::string& line, int64_t step) {
  const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
  return document.is_object() && document.contains("step") &&
         document["step"].is_number_integer() && document["step"].get<int64_t>() <= step;
}

}  // namespace

void SupersedeLinesAfter(const std::string& jsonl_path, int64_t step) {
  std::error_code ignored;
  if (!fs::is_regular_file(jsonl_path, ignored)) return;
  const std::string text = ReadTextFile(jsonl_path);
  std::string kept, moved;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = text.find('\n', begin);
    const bool whole = newline != std::string::npos;
    const std::string line = text.substr(begin, whole ? newline - begin : std::string::npos);
    begin = whole ? newline + 1 : text.size();
    if (line.empty()) continue;
    (whole && Stays(line, step) ? kept : moved) += line + "\n";
  }
  if (moved.empty()) return;

  // First the copy, then the removal: a crash between the two repeats lines there, and loses none.
  fs::path aside(jsonl_path);
  aside.replace_extension(".superseded.jsonl");
  const std::string earlier = fs::exists(aside, ignored) ? ReadTextFile(aside.string()) : "";
  const std::string directory = fs::path(jsonl_path).parent_path().string();
  const auto replace = [](const std::string& path, const std::string& content) {
    WriteFileDurably(path + ".new", content);
    RenamePath(path + ".new", path);
  };
  replace(aside.string(), earlier + moved);
  replace(jsonl_path, kept);
  SyncDirectory(directory.empty() ? "." : directory);
}

}  // namespace am::engine
