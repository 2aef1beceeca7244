// JsonReader: a pull reader over one JSON text, quick enough that half a million merges load in
// tens of milliseconds.
//
// The loader of tokenizer.json walks the document with it once, copying what it needs; small
// sections are taken as raw text and parsed by nlohmann::json. Every fault is an am::Error (kUser)
// with "file:line:column: error: ...".
//
//   JsonReader json(text, "tokenizer.json");
//   json.BeginObject();
//   std::string_view key;
//   while (json.NextKey(key)) { if (key == "vocab") ReadVocab(json); else json.Skip(); }
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace am::text {

class JsonReader {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull };

  // `text` is valid UTF-8 and outlives the reader; `file` is what errors name.
  // Reading begins at offset `at`, where a value of a larger document may stand.
  JsonReader(std::string_view text, std::string file, size_t at = 0)
      : text_(text), file_(std::move(file)), at_(at) {}

  Kind Peek();
  void BeginObject();
  bool NextKey(
      std::string_view& key);  // false: the object ended; `key` lives until the next string is read
  void BeginArray();
  bool NextElement();         // false: the array ended
  std::string_view String();  // lives until the next string is read
  // The same, for as long as the document and `store` live.
  std::string_view KeptString(std::deque<std::string>& store);
  int64_t Int();
  double Double();
  bool Bool();
  bool TakeNull();          // true when a null stood here and was consumed
  std::string_view Skip();  // any value; returns its text
  void End();               // nothing but white space may follow

  [[noreturn]] void Fail(const std::string& what) const { FailAt(at_, what); }
  // What stands at the reader, named for messages: "a string", "an object", ...
  std::string Found();

 private:
  [[noreturn]] void FailAt(size_t offset, const std::string& what) const;
  void SkipSpace();
  char Next(const char* wanted);
  void Open();
  std::string_view ReadString();
  void ReadEscape();
  unsigned ReadHex4();

  std::string_view text_;
  std::string file_;
  size_t at_;
  int depth_ = 0;
  bool first_ = false;  // the innermost container has had no element yet
  std::string scratch_;
};

}  // namespace am::text
