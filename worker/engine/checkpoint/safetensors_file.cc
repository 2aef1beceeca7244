#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "worker/engine/checkpoint/safetensors_header.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

// The map of a whole file. A file that shrinks while it is mapped kills the process with SIGBUS:
// checkpoints are never written in place, so that does not happen to files of ours.
class FileMap {
 public:
  explicit FileMap(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw UserError(path + ": cannot open: " + std::strerror(errno));
    struct stat status;
    const bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    size_ = is_file ? static_cast<size_t>(status.st_size) : 0;
    if (size_ > 0) data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    close(fd);
    if (!is_file) throw UserError(path + ": is no regular file");
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw IoError(path + ": cannot map: " + std::strerror(error));
    }
    if (data_ != nullptr) madvise(data_, size_, MADV_WILLNEED);
  }
  ~FileMap() {
    if (data_ != nullptr) munmap(data_, size_);
  }
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

struct SafetensorsFile::Impl {
  std::string path;
  FileMap map;
  SafetensorsHeader header;
  ChunkPlaces places;
  std::map<std::string, TensorInfo> infos;

  explicit Impl(const std::string& file)
      : path(file), map(file), header(ParseSafetensorsHeader(map.bytes(), file)) {
    places = ParseChunkPlaces(header, path);
    for (const auto& [name, entry] : header.tensors) {
      const std::optional<at::ScalarType> dtype = DtypeFromSafetensors(entry.dtype);
      if (!dtype) {
        throw UserError(path + ": tensor " + QuotedName(name) + " has the dtype " + entry.dtype +
                        ", which is not supported");
      }
      infos.emplace(name, TensorInfo{entry.shape, *dtype});
    }
  }
};

std::shared_ptr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  auto file = std::make_shared<SafetensorsFile>();
  file->impl_ = std::make_shared<Impl>(path);
  return file;
}

const std::map<std::string, TensorInfo>& SafetensorsFile::tensors() const { return impl_->infos; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header.metadata;
}
const ChunkPlaces& SafetensorsFile::places() const { return impl_->places; }
const std::string& SafetensorsFile::path() const { return impl_->path; }

at::Tensor SafetensorsFile::View(const std::string& name) const {
  const auto found = impl_->infos.find(name);
  if (found == impl_->infos.end()) {
    throw UserError(impl_->path + ": has no tensor " + QuotedName(name));
  }
  const SafetensorsEntry& entry = impl_->header.tensors.at(name);
  const TensorInfo& info = found->second;
  const char* data = impl_->map.bytes().data() + impl_->header.data_begin + entry.begin;
  const auto options = at::TensorOptions().dtype(info.dtype);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % c10::elementSize(info.dtype) == 0;
  if (!aligned || entry.begin == entry.end) {
    at::Tensor copy = at::empty(info.shape, options);
    if (entry.begin < entry.end) std::memcpy(copy.data_ptr(), data, entry.end - entry.begin);
    return copy;
  }
  std::shared_ptr<Impl> keep = impl_;
  return at::from_blob(
      const_cast<char*>(data), info.shape, [keep](void*) {}, options);
}

}  // namespace am::engine
