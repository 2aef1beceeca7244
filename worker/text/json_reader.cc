#include "worker/text/json_reader.h"

#include <charconv>

#include "common/error.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {
constexpr int kMaxDepth = 100;
}

void JsonReader::FailAt(size_t offset, const std::string& what) const {
  size_t line = 1, line_begin = 0;
  for (size_t i = 0; i < offset && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++line;
      line_begin = i + 1;
    }
  }
  throw UserError(file_ + ":" + std::to_string(line) + ":" +
                  std::to_string(offset - line_begin + 1) + ": error: " + what);
}

void JsonReader::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') break;
    ++at_;
  }
}

char JsonReader::Next(const char* wanted) {
  SkipSpace();
  if (at_ >= text_.size())
    Fail(std::string("the file ends where ") + wanted + " was expected; it is truncated");
  return text_[at_];
}

JsonReader::Kind JsonReader::Peek() {
  switch (const char c = Next("a value")) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    default:
      if (c == '-' || (c >= '0' && c <= '9')) return Kind::kNumber;
      Fail("not JSON: a value was expected here");
  }
}

std::string JsonReader::Found() {
  switch (Peek()) {
    case Kind::kObject:
      return "an object";
    case Kind::kArray:
      return "an array";
    case Kind::kString:
      return "a string";
    case Kind::kNumber:
      return "a number";
    case Kind::kBool:
      return "a boolean";
    case Kind::kNull:
      return "null";
  }
  return "";
}

void JsonReader::Open() {
  if (++depth_ > kMaxDepth) Fail("nested deeper than " + std::to_string(kMaxDepth) + " levels");
  ++at_;
  first_ = true;
}

void JsonReader::BeginObject() {
  if (Peek() != Kind::kObject) Fail("expected an object, found " + Found());
  Open();
}

bool JsonReader::NextKey(std::string_view& key) {
  char c = Next("a key or '}'");
  if (c == '}') {
    ++at_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (c != ',') Fail("not JSON: ',' or '}' was expected here");
    ++at_;
    c = Next("a key");
  }
  if (c != '"') Fail("not JSON: a key was expected here");
  key = ReadString();
  if (Next("':'") != ':') Fail("not JSON: ':' was expected here");
  ++at_;
  first_ = false;
  return true;
}

void JsonReader::BeginArray() {
  if (Peek() != Kind::kArray) Fail("expected an array, found " + Found());
  Open();
}

bool JsonReader::NextElement() {
  const char c = Next("a value or ']'");
  if (c == ']') {
    ++at_;
    --depth_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (c != ',') Fail("not JSON: ',' or ']' was expected here");
    ++at_;
  }
  first_ = false;
  return true;
}

std::string_view JsonReader::String() {
  if (Peek() != Kind::kString) Fail("expected a string, found " + Found());
  return ReadString();
}

std::string_view JsonReader::KeptString(std::deque<std::string>& store) {
  const std::string_view view = String();
  return view.data() == scratch_.data() ? std::string_view(store.emplace_back(view)) : view;
}

std::string_view JsonReader::ReadString() {
  size_t begin = ++at_;
  bool escaped = false;
  for (;;) {
    if (at_ >= text_.size()) FailAt(begin - 1, "this string has no end; the file is truncated");
    const char c = text_[at_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) Fail("not JSON: a control character in a string");
    if (c != '\\') {
      ++at_;
      continue;
    }
    if (!escaped) scratch_.clear();
    escaped = true;
    scratch_.append(text_, begin, at_ - begin);
    ReadEscape();
    begin = at_;
  }
  if (!escaped) return text_.substr(begin, at_++ - begin);
  scratch_.append(text_, begin, at_++ - begin);
  return scratch_;
}

void JsonReader::ReadEscape() {
  if (at_ + 1 >= text_.size()) Fail("this string has no end; the file is truncated");
  const char c = text_[at_ + 1];
  at_ += 2;
  switch (c) {
    case '"':
    case '\\':
    case '/':
      scratch_.push_back(c);
      return;
    case 'b':
      scratch_.push_back('\b');
      return;
    case 'f':
      scratch_.push_back('\f');
      return;
    case 'n':
      scratch_.push_back('\n');
      return;
    case 'r':
      scratch_.push_back('\r');
      return;
    case 't':
      scratch_.push_back('\t');
      return;
    case 'u': {
      char32_t point = ReadHex4();
      if (point >= 0xD800 && point < 0xDC00) {
        if (text_.substr(at_, 2) != "\\u") Fail("half of a surrogate pair in a string");
        at_ += 2;
        const char32_t low = ReadHex4();
        if (low < 0xDC00 || low > 0xDFFF) Fail("half of a surrogate pair in a string");
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
      } else if (point >= 0xDC00 && point <= 0xDFFF) {
        Fail("half of a surrogate pair in a string");
      }
      AppendUtf8(scratch_, point);
      return;
    }
    default:
      at_ -= 1;
      Fail("not JSON: unknown escape in a string");
  }
}

unsigned JsonReader::ReadHex4() {
  unsigned value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4) {
    Fail("not JSON: four hexadecimal digits were expected after \\u");
  }
  at_ += 4;
  return value;
}

int64_t JsonReader::Int() {
  if (Peek() != Kind::kNumber) Fail("expected an integer, found " + Found());
  int64_t value = 0;
  const char* begin = text_.data() + at_;
  const char* limit = text_.data() + text_.size();
  const auto [end, error] = std::from_chars(begin, limit, value);
  if (error != std::errc() || (end != limit && (*end == '.' || *end == 'e' || *end == 'E'))) {
    Fail("expected an integer");
  }
  at_ += end - begin;
  return value;
}

double JsonReader::Double() {
  if (Peek() != Kind::kNumber) Fail("expected a number, found " + Found());
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) Fail("this number cannot be represented");
  at_ += end - begin;
  return value;
}

bool JsonReader::Bool() {
  if (Peek() != Kind::kBool) Fail("expected true or false, found " + Found());
  for (const std::string_view word : {"true", "false"}) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return word == "true";
    }
  }
  Fail("not JSON: a value was expected here");
}

bool JsonReader::TakeNull() {
  if (Peek() != Kind::kNull) return false;
  if (text_.substr(at_, 4) != "null") Fail("not JSON: a value was expected here");
  at_ += 4;
  return true;
}

std::string_view JsonReader::Skip() {
  const Kind kind = Peek();
  const size_t begin = at_;
  switch (kind) {
    case Kind::kObject: {
      BeginObject();
      std::string_view key;
      while (NextKey(key)) Skip();
      break;
    }
    case Kind::kArray:
      BeginArray();
      while (NextElement()) Skip();
      break;
    case Kind::kString:
      ReadString();
      break;
    case Kind::kNumber:
      Double();
      break;
    case Kind::kBool:
      Bool();
      break;
    case Kind::kNull:
      TakeNull();
      break;
  }
  return text_.substr(begin, at_ - begin);
}

void JsonReader::End() {
  SkipSpace();
  if (at_ < text_.size()) Fail("not JSON: nothing was expected after the end of the document");
}

}  // namespace am::text
