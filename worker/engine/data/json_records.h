// JsonRecords: the records of a data set, parsed when they are asked for. Immutable after Open,
// shared by any threads.
//
//   const JsonRecords records = JsonRecords::Open("/data/wordnet_squad", "train", {.limit = 1000});
//   const JsonRecord record = records.Get(7);  // record.value["question"], record.place ==
//   "…/train.jsonl:8"
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/data/json_files.h"

namespace am::engine {

struct JsonRecord {
  nlohmann::ordered_json value;  // an object
  std::string place;             // "FILE:LINE", for error messages; inside a document "FILE:
                                 // data[1].paragraphs[0].qas[2]"
};

class JsonRecords {
 public:
  struct Options {
    std::optional<int64_t> limit;  // only the first ones
    bool lossy_utf8 = false;       // invalid UTF-8 becomes U+FFFD instead of an error
  };

  // Throws am::Error (kUser): nothing there, no records, a broken document.
  static JsonRecords Open(const std::string& path, const std::string& split,
                          const Options& options);

  int64_t size() const { return last_ - first_; }
  // Throws am::Error (kUser) "FILE:LINE:COLUMN: error: …" for what is no JSON object or no UTF-8.
  JsonRecord Get(int64_t index) const;

 private:
  void ReadDocument(const std::string& file, const RecordPlace& place);

  Options options_;
  JsonIndex index_;
  std::vector<JsonRecord> nested_;  // of documents; the others are read when asked for
  bool is_document_ = false;
  int64_t first_ = 0;
  int64_t last_ = 0;
};

// A member of a record, or an error that names the record, the field, and the fields that are
// there.
const nlohmann::ordered_json& Field(const JsonRecord& record, const std::string& name);
const std::string& TextField(const JsonRecord& record, const std::string& name);

}  // namespace am::engine
