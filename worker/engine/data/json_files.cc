#include "worker/engine/data/json_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

#include "common/error.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
constexpr size_t kBlockBytes = size_t{1} << 20;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw UserError(path + ": error: cannot be opened: " + std::strerror(errno));
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  size_t Read(uint64_t offset, char* buffer, size_t bytes) const {
    while (true) {
      const ssize_t got = ::pread(fd_, buffer, bytes, static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw IoError(path_ + ": cannot be read: " + std::strerror(errno));
    }
  }

 private:
  std::string path_;
  int fd_;
};

// Feeds a file to `sink(char)` until it returns false.
template <typename Sink>
void ForEachByte(const std::string& path, Sink sink) {
  const InputFile file(path);
  std::vector<char> block(kBlockBytes);
  for (uint64_t offset = 0;;) {
    const size_t got = file.Read(offset, block.data(), block.size());
    if (got == 0) return;
    for (size_t i = 0; i < got; ++i) {
      if (!sink(block[i])) return;
    }
    offset += got;
  }
}

[[noreturn]] void FailAt(const std::string& path, int64_t line, const std::string& what) {
  throw UserError(path + ":" + std::to_string(line) + ": error: " + what);
}

// One record a line; lines of white space alone are none.
void IndexLines(const std::string& path, int32_t number, size_t limit,
                std::vector<RecordPlace>& places) {
  const InputFile file(path);
  std::vector<char> block(kBlockBytes);
  uint64_t line_begin = 0;
  int32_t line = 1;
  bool blank = true;
  const auto flush = [&](uint64_t end) {
    if (!blank) places.push_back({number, line, line_begin, end - line_begin});
  };
  for (uint64_t offset = 0;;) {
    const size_t got = file.Read(offset, block.data(), block.size());
    if (got == 0) return flush(offset);
    for (size_t i = 0; i < got;) {
      const char* newline = static_cast<const char*>(std::memchr(&block[i], '\n', got - i));
      const size_t end = newline != nullptr ? static_cast<size_t>(newline - block.data()) : got;
      for (; blank && i < end; ++i) blank = IsSpace(block[i]);
      if (newline == nullptr) break;
      flush(offset + end);
      if (limit != 0 && places.size() >= limit) return;
      line_begin = offset + end + 1;
      ++line;
      blank = true;
      i = end + 1;
    }
    offset += got;
  }
}

// The elements of one JSON array of objects, by counting brackets outside of strings.
class ArrayIndexer {
 public:
  ArrayIndexer(const std::string& path, int32_t number, size_t limit,
               std::vector<RecordPlace>& places)
      : path_(path), number_(number), limit_(limit), places_(places) {}

  void Run() {
    ForEachByte(path_, [this](char c) {
      const bool more = Next(c);
      ++offset_;
      line_ += c == '\n' ? 1 : 0;
      return more;
    });
    const bool stopped = limit_ != 0 && places_.size() >= limit_;
    if (!closed_ && !stopped)
      FailAt(path_, line_, "the file ends inside its array; is it cut off?");
  }

 private:
  bool Next(char c) {
    if (in_string_) {
      in_string_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return true;
    }
    if (IsSpace(c)) return true;
    if (closed_) FailAt(path_, line_, "there is more after the end of the array");
    if (depth_ == 1 && c != ',' && c != ']' && c != '{') {
      FailAt(path_, line_, "the elements of the array must be objects");
    }
    if (c == '"') in_string_ = true;
    if (c == '[' || c == '{') {
      if (depth_++ == 1) begin_ = {number_, line_, offset_, 0};
    }
    if (c == ']' || c == '}') {
      if (--depth_ == 0) closed_ = true;
      if (depth_ == 1) {
        begin_.length = offset_ + 1 - begin_.offset;
        places_.push_back(begin_);
        return limit_ == 0 || places_.size() < limit_;
      }
    }
    return true;
  }

  const std::string& path_;
  int32_t number_;
  size_t limit_;
  std::vector<RecordPlace>& places_;
  RecordPlace begin_;
  uint64_t offset_ = 0;
  int32_t line_ = 1;
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool closed_ = false;
};

// What a .json file holds: its first character tells an array; an object that ends on its line,
// with more behind it, is the first of many lines.
JsonLayout LayoutOf(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".jsonl" || extension == ".ndjson") return JsonLayout::kLines;
  JsonLayout layout = JsonLayout::kLines;
  char first = '\0';
  int depth = 0;
  bool in_string = false;
  bool escaped = false;
  bool complete = false;
  ForEachByte(path, [&](char c) {
    if (in_string) {
      in_string = escaped || c != '"';
      escaped = !escaped && c == '\\';
      return true;
    }
    if (first != '\0' && !complete && c == '\n') {
      layout = JsonLayout::kDocument;
      return false;
    }
    if (IsSpace(c)) return true;
    if (complete) {
      layout = JsonLayout::kLines;
      return false;
    }
    if (first == '\0') first = c;
    if (first == '[') {
      layout = JsonLayout::kArray;
      return false;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) {
      complete = true;
      layout = JsonLayout::kDocument;  // unless more follows
    }
    return true;
  });
  return layout;
}

std::vector<std::string> SplitNames(const std::string& split) {
  if (split == "validation") return {"validation", "valid", "val", "dev"};
  return {split};
}

bool IsDataFile(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".jsonl" || extension == ".json" || extension == ".ndjson";
}

// "train.jsonl", "train-00000-of-00002.jsonl", "train_part.json", "train.v1.json", but not
// "training.jsonl".
bool NameCarries(const std::string& file, const std::string& split) {
  return file.starts_with(split) && file.size() > split.size() &&
         std::string("-_.").find(file[split.size()]) != std::string::npos;
}

}  // namespace

SplitRange ParseSplit(const std::string& split) {
  SplitRange range;
  const size_t bracket = split.find('[');
  range.name = split.substr(0, bracket);
  if (bracket == std::string::npos && split.find('+') == std::string::npos) return range;
  const auto fail = [&]() -> Error {
    return UserError("dataset.split: '" + split +
                     "' is not understood; write a name, or a name and a range such as " +
                     "train[:1000], train[500:], train[10%:20%]");
  };
  const size_t colon = split.find(':', bracket);
  if (bracket == std::string::npos || colon == std::string::npos || split.back() != ']')
    throw fail();
  const auto bound = [&](std::string text, bool& percent) {
    percent = !text.empty() && text.back() == '%';
    if (percent) text.pop_back();
    const size_t digits = !text.empty() && text[0] == '-' ? 1 : 0;
    const bool number =
        text.find_first_not_of("0123456789", digits) == std::string::npos && text.size() > digits;
    if (text.size() > 15 || (!number && (!text.empty() || percent))) throw fail();
    return text;
  };
  range.begin = bound(split.substr(bracket + 1, colon - bracket - 1), range.begin_percent);
  range.end = bound(split.substr(colon + 1, split.size() - colon - 2), range.end_percent);
  return range;
}

int64_t SplitRange::Bound(const std::string& text, bool percent, int64_t n, int64_t otherwise) {
  if (text.empty()) return otherwise;
  int64_t bound = std::stoll(text);
  if (percent) bound = std::llround(static_cast<double>(bound) * static_cast<double>(n) / 100.0);
  if (bound < 0) bound += n;
  return std::clamp<int64_t>(bound, 0, n);
}

std::vector<std::string> FindSplitFiles(const std::string& path, const std::string& split) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (!fs::exists(status)) {
    throw UserError(
        path +
        ": error: dataset path: no such file or directory; name a .jsonl or .json file, or a " +
        "directory that holds " + split + ".jsonl");
  }
  if (!fs::is_directory(status)) return {path};
  std::vector<std::string> present;
  for (const auto& entry : fs::directory_iterator(path, failure)) {
    if (IsDataFile(entry.path()) && !entry.is_directory())
      present.push_back(entry.path().filename().string());
  }
  if (failure) throw UserError(path + ": error: cannot be listed: " + failure.message());
  std::sort(present.begin(), present.end());
  for (const std::string& name : SplitNames(split)) {
    std::vector<std::string> files;
    for (const std::string& file : present) {
      if (NameCarries(file, name)) files.push_back((fs::path(path) / file).string());
    }
    if (!files.empty()) return files;
  }
  std::string listed;
  for (const std::string& file : present) listed += (listed.empty() ? "" : ", ") + file;
  throw UserError(path + ": error: dataset.split: no file for the split '" + split + "' (" + split +
                  ".jsonl, " + split + "-*.json, ...); the directory holds " +
                  (listed.empty() ? "no .jsonl or .json file" : listed));
}

JsonIndex IndexJsonFiles(const std::vector<std::string>& files, int64_t limit) {
  JsonIndex index;
  index.files = files;
  for (const std::string& file : files) {
    const auto number = static_cast<int32_t>(index.layouts.size());
    const size_t before = index.places.size();
    const size_t most = static_cast<size_t>(std::max<int64_t>(limit, 0));
    const JsonLayout layout = LayoutOf(file);
    index.layouts.push_back(layout);
    if (most != 0 && before >= most) continue;
    switch (layout) {
      case JsonLayout::kLines:
        IndexLines(file, number, most, index.places);
        break;
      case JsonLayout::kArray:
        ArrayIndexer(file, number, most, index.places).Run();
        break;
      case JsonLayout::kDocument:
        index.places.push_back({number, 1, 0, fs::file_size(file)});
        break;
    }
    if (index.places.size() == before) throw UserError(file + ": error: the file holds no records");
  }
  return index;
}

std::string ReadFilePart(const std::string& path, uint64_t offset, uint64_t length) {
  const InputFile file(path);
  std::string part(length, '\0');
  for (uint64_t done = 0; done < length;) {
    const size_t got = file.Read(offset + done, part.data() + done, length - done);
    if (got == 0)
      throw UserError(path + ": error: the file has become shorter since it was opened");
    done += got;
  }
  return part;
}

}  // namespace am::engine
