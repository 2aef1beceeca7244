// Cuts a stream of bytes into lines, whatever the bytes are: NUL, invalid UTF-8 and a missing last
// newline included.
//
// A line longer than the cap is cut: the reader keeps its head, counts the rest, and goes on with
// the next line.
//   LineReader reader(4096, [&](std::string_view line, size_t cut_bytes) { ... });
//   reader.Feed(chunk); ... reader.Finish();
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace am {

class LineReader {
 public:
  // `line` is without its newline; `cut_bytes` is how much of it was beyond the cap.
  using LineCallback = std::function<void(std::string_view line, size_t cut_bytes)>;

  LineReader(size_t max_line_bytes, LineCallback on_line)
      : max_line_bytes_(max_line_bytes), on_line_(std::move(on_line)) {}

  void Feed(std::string_view bytes);
  void Finish();  // the rest, when it is not empty, is a line too

 private:
  void Append(std::string_view bytes);
  void Emit();

  size_t max_line_bytes_;
  LineCallback on_line_;
  std::string line_;
  size_t cut_bytes_ = 0;
};

}  // namespace am
