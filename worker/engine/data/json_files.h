// Where the records of a data set are: its files, and the place of each record in them. Nothing is
// parsed here.
//
// A path is one file, or a directory whose files carry the split in their names (train.jsonl,
// validation-00001.json, dev-v1.1.json for validation). A file is JSON lines, or one JSON document:
// an array of records or nested SQuAD.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::engine {

struct RecordPlace {
  int32_t file = 0;
  int32_t line = 1;
  uint64_t offset = 0;
  uint64_t length = 0;
};

enum class JsonLayout { kLines, kArray, kDocument };

struct JsonIndex {
  std::vector<std::string> files;
  std::vector<RecordPlace> places;  // of a kDocument file: one, the whole file
  std::vector<JsonLayout> layouts;  // of each file
};

// A split as Hugging Face writes it: "train", "train[:1000]", "validation[10%:20%]".
struct SplitRange {
  std::string name;
  int64_t First(int64_t n) const { return Bound(begin, begin_percent, n, 0); }
  int64_t Last(int64_t n) const { return Bound(end, end_percent, n, n); }

  std::string begin, end;  // digits, perhaps after a minus; empty: from the start, to the end
  bool begin_percent = false, end_percent = false;

 private:
  static int64_t Bound(const std::string& text, bool percent, int64_t n, int64_t otherwise);
};
SplitRange ParseSplit(const std::string& split);  // throws am::Error (kUser)

// The files of a split, sorted by name. Throws am::Error (kUser) that names what was looked for and
// what is there.
std::vector<std::string> FindSplitFiles(const std::string& path, const std::string& split);

// Reads the files once, in blocks, for the places of their records. Stops after `limit` records; 0:
// all.
JsonIndex IndexJsonFiles(const std::vector<std::string>& files, int64_t limit);

// `length` bytes at `offset`; throws am::Error.
std::string ReadFilePart(const std::string& path, uint64_t offset, uint64_t length);

}  // namespace am::engine
