// What the tests of this room share: a directory of their own, and files made by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/error.h"

namespace am::engine {

class Scratch {
 public:
  // kMemory: where fsync costs nothing, for tests that make thousands of them.
  enum Where { kDisk, kMemory };
  explicit Scratch(Where where = kDisk) {
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory = where == kMemory && access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "am_checkpoint_XXXXXX")
            .string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : (std::filesystem::path(path_) / name).string();
  }
  std::string Write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path(name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::string path_;
};

inline std::string Slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A safetensors file: length, header, `data_bytes` bytes of data.
inline std::string FileOf(const std::string& header, size_t data_bytes) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + std::string(data_bytes, '\x01');
}

// The am::Error that `call` throws: its text, with the kind checked.
inline std::string ErrorOf(const std::function<void()>& call, ErrorKind kind = ErrorKind::kUser) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no am::Error";
  return "";
}

}  // namespace am::engine
