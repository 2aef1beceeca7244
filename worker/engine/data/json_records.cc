#include "worker/engine/data/json_records.h"

#include <algorithm>

#include "common/error.h"
#include "worker/text/utf8.h"

namespace am::engine {
namespace {

using Json = nlohmann::ordered_json;

Error At(const std::string& place, const std::string& what) {
  return UserError(place + ": error: " + what);
}

// Line and column, both from 1, of a byte of `text` that begins on line `line` of its file.
std::string Position(const std::string& text, size_t byte, int64_t line) {
  byte = std::min(byte, text.size());
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(byte);
  const size_t newline = byte == 0 ? std::string::npos : text.rfind('\n', byte - 1);
  const size_t column = newline == std::string::npos ? byte + 1 : byte - newline;
  return std::to_string(line + std::count(text.begin(), end, '\n')) + ":" + std::to_string(column);
}

// The reason alone out of "[json.exception.parse_error.101] parse error at line 1, column 5: syntax
// error while …".
std::string Reason(const std::string& message) {
  const size_t colon = message.find(": ");
  return colon == std::string::npos ? message : message.substr(colon + 2);
}

Json Parse(std::string text, const std::string& file, int64_t line, bool lossy_utf8) {
  if (const auto invalid = text::FindInvalidUtf8(text)) {
    if (!lossy_utf8) {
      throw At(file + ":" + Position(text, *invalid, line),
               "invalid UTF-8; mend the file, or set dataset.lossy: true to read U+FFFD instead");
    }
    text = text::ReplaceInvalidUtf8(text);
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw At(file + ":" + Position(text, byte, line), "not JSON: " + Reason(error.what()));
  }
}

std::string Listed(const Json& object) {
  std::string names;
  for (const auto& [name, value] : object.items()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

JsonRecords JsonRecords::Open(const std::string& path, const std::string& split,
                              const Options& options) {
  JsonRecords records;
  records.options_ = options;
  const SplitRange range = ParseSplit(split);
  const bool whole = range.begin.empty() && range.end.empty();
  records.index_ =
      IndexJsonFiles(FindSplitFiles(path, range.name), whole ? options.limit.value_or(0) : 0);
  const JsonIndex& index = records.index_;
  records.is_document_ = std::find(index.layouts.begin(), index.layouts.end(),
                                   JsonLayout::kDocument) != index.layouts.end();
  if (records.is_document_) {
    for (const RecordPlace& place : index.places) {
      const std::string& file = index.files[static_cast<size_t>(place.file)];
      if (index.layouts[static_cast<size_t>(place.file)] != JsonLayout::kDocument) {
        throw UserError(
            file + ": error: JSON lines and nested SQuAD documents cannot be mixed in one split");
      }
      records.ReadDocument(file, place);
    }
  }
  const auto n =
      static_cast<int64_t>(records.is_document_ ? records.nested_.size() : index.places.size());
  records.first_ = range.First(n);
  records.last_ = std::max(range.Last(n), records.first_);
  if (options.limit)
    records.last_ = std::min(records.last_, records.first_ + std::max<int64_t>(*options.limit, 0));
  if (records.size() == 0) {
    throw UserError(path + ": error: dataset: nothing is left of " + std::to_string(n) +
                    " records by the split '" + split + "' and limit_dataset_samples");
  }
  return records;
}

// SQuAD v1.1: {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers":
// [{"text", …}]}]}]}]}, flattened to the records that the lines of the Hugging Face data set have.
void JsonRecords::ReadDocument(const std::string& file, const RecordPlace& place) {
  const Json document =
      Parse(ReadFilePart(file, place.offset, place.length), file, 1, options_.lossy_utf8);
  if (!document.is_object())
    throw At(file + ":1", "expected an object, an array of objects, or one object a line");
  const auto data = document.find("data");
  if (data == document.end()) {
    nested_.push_back({document, file + ":1"});  // a file of a single record
    return;
  }
  const auto list = [&](const Json& owner, const char* name,
                        const std::string& where) -> const Json& {
    const auto found = owner.is_object() ? owner.find(name) : owner.end();
    if (!owner.is_object() || found == owner.end() || !found->is_array()) {
      throw At(file, where + (where.empty() ? "" : ".") + name + ": expected a list");
    }
    return *found;
  };
  size_t article_number = 0;
  for (const Json& article : list(document, "data", "")) {
    const std::string article_place = "data[" + std::to_string(article_number++) + "]";
    if (article.is_object() && !article.contains("paragraphs")) {
      nested_.push_back({article, file + ": " + article_place});
      continue;
    }
    size_t paragraph_number = 0;
    for (const Json& paragraph : list(article, "paragraphs", article_place)) {
      const std::string paragraph_place =
          article_place + ".paragraphs[" + std::to_string(paragraph_number++) + "]";
      size_t question_number = 0;
      for (const Json& question : list(paragraph, "qas", paragraph_place)) {
        const std::string question_place =
            paragraph_place + ".qas[" + std::to_string(question_number++) + "]";
        if (!question.is_object()) throw At(file, question_place + ": expected an object");
        Json record = question;
        if (article.contains("title")) record["title"] = article["title"];
        if (paragraph.contains("context")) record["context"] = paragraph["context"];
        nested_.push_back({std::move(record), file + ": " + question_place});
      }
    }
  }
}

JsonRecord JsonRecords::Get(int64_t index) const {
  const auto number = static_cast<size_t>(first_ + index);
  if (is_document_) return nested_[number];
  const RecordPlace& place = index_.places[number];
  const std::string& file = index_.files[static_cast<size_t>(place.file)];
  JsonRecord record{
      Parse(ReadFilePart(file, place.offset, place.length), file, place.line, options_.lossy_utf8),
      file + ":" + std::to_string(place.line)};
  if (!record.value.is_object()) {
    throw At(record.place, "expected a JSON object, got " + std::string(record.value.type_name()));
  }
  return record;
}

const Json& Field(const JsonRecord& record, const std::string& name) {
  const auto found = record.value.find(name);
  if (found == record.value.end()) {
    throw At(record.place,
             "the field '" + name + "' is missing; the record has: " + Listed(record.value));
  }
  return *found;
}

const std::string& TextField(const JsonRecord& record, const std::string& name) {
  const Json& field = Field(record, name);
  if (!field.is_string()) {
    throw At(record.place,
             "the field '" + name + "' must be a string, got " + std::string(field.type_name()));
  }
  return field.get_ref<const std::string&>();
}

}  // namespace am::engine
