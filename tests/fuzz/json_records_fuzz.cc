// Whatever lies in a data file: records or am::Error, and every record lies inside the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/error.h"
#include "worker/engine/data/json_records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = ::memfd_create("records", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (size > (1 << 20) || ::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  try {
    const auto records =
        am::engine::JsonRecords::Open(path, "train", {.lossy_utf8 = size % 2 == 0});
    if (records.size() < 1) std::abort();
    for (int64_t i = 0; i < records.size(); ++i) {
      try {
        if (!records.Get(i).value.is_object()) std::abort();
      } catch (const am::Error&) {
      }
    }
  } catch (const am::Error&) {
  }
  return 0;
}
