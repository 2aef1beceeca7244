// Values of the template language: Python's None, bool, int, float, str, list, tuple, dict and
// jinja2's Undefined.
//
// The lowest layer of the chat template room: lexer, parser and evaluator stand on it. Containers
// are immutable and shared, as in jinja2's ImmutableSandboxedEnvironment; only namespaces,
// iterators and the like (Object) change. A value nests at most kMaxDepth deep, so that printing,
// comparing and destroying it never exhausts the stack.
//
//   Value greeting = Value::Str("hi");  ToText(Value::List({greeting, Value::None()}));  // "['hi',
//   None]"
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace am::text::jinja {

// What a template does wrong; ChatTemplate turns it into am::Error with the line it was evaluating.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

constexpr int kMaxDepth = 200;
constexpr size_t kMaxTextBytes = size_t{64} << 20;

// Counts the work of one rendering on the thread that does it; comparing and printing happen deep
// inside standard algorithms, which is why the meter belongs to the thread. Without a meter nothing
// is counted.
class WorkMeter {
 public:
  explicit WorkMeter(uint64_t limit);
  ~WorkMeter();
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

 private:
  friend void ChargeWork(uint64_t units);
  uint64_t left_;
  WorkMeter* outer_;
};
void ChargeWork(uint64_t units);  // throws Failure when the rendering has used up its share

// A string under construction that refuses to outgrow kMaxTextBytes.
class TextBuilder {
 public:
  TextBuilder& operator+=(std::string_view piece);
  TextBuilder& operator+=(char c) { return *this += std::string_view(&c, 1); }
  std::string Take() { return std::move(text_); }
  size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kRange,
  kView,      // dict.keys(), .values(), .items()
  kIterator,  // what map, select, items, reverse and the like return: no length, consumed once
  kDict,
  kObject,
};

class Value;
struct Sequence;
class Dict;
class Object;
struct Arguments;

class Value {
 public:
  Value() = default;  // None
  static Value None() { return Value(); }
  static Value Bool(bool b);
  static Value Int(int64_t i);
  static Value Float(double d);
  static Value Str(std::string text, bool markup = false);
  static Value List(std::vector<Value> items) { return Make(Kind::kList, std::move(items)); }
  static Value Tuple(std::vector<Value> items) { return Make(Kind::kTuple, std::move(items)); }
  static Value Iterator(std::vector<Value> items) {
    return Make(Kind::kIterator, std::move(items));
  }
  // `label` is what repr() says of a range or a view, or the attribute names of a group tuple.
  static Value Make(Kind kind, std::vector<Value> items, std::string label = "");
  static Value FromDict(Dict dict);
  static Value FromObject(std::shared_ptr<Object> object);
  // `message` is what an operation on it complains about, e.g. "'x' is undefined".
  static Value Undefined(std::string message);
  static Value FromJson(const nlohmann::ordered_json& json);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_int() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_int() || kind_ == Kind::kFloat; }
  bool is_sequence() const { return kind_ >= Kind::kList && kind_ <= Kind::kIterator; }

  bool boolean() const { return integer_ != 0; }
  int64_t integer() const { return integer_; }  // of kInt and kBool
  double real() const;                          // of any number
  const std::string& text() const;              // of kString; the message of kUndefined
  bool markup() const;                          // a string that |safe or |escape made
  Sequence& sequence() const;
  const Dict& dict() const;
  const std::shared_ptr<Object>& object() const;
  const void* identity() const { return shared_.get(); }
  int depth() const;

 private:
  Kind kind_ = Kind::kNone;
  int64_t integer_ = 0;  // a float keeps its bits here
  std::shared_ptr<void> shared_;
};

struct Sequence {
  std::vector<Value> items;
  size_t next = 0;  // of an iterator
  int depth = 1;
  std::string label;
};

// Insertion-ordered. A later value of an equal key replaces the earlier one in its place.
class Dict {
 public:
  void Set(Value key, Value value);  // throws Failure for an unhashable key
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  const std::vector<std::pair<Value, Value>>& items() const { return items_; }
  size_t size() const { return items_.size(); }
  int depth() const { return depth_; }

 private:
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, size_t>
      index_;  // hash text of the key; empty while the dict is small
  int depth_ = 1;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Everything that is more than data: functions, macros, loops, namespaces.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string TypeName() const = 0;
  virtual std::string Repr() const { return "<" + TypeName() + " object>"; }
  virtual std::optional<Value> Attribute(const std::string& name);
  virtual bool callable() const { return false; }
  virtual Value Call(Arguments& arguments);
  virtual std::optional<int64_t> Length() { return std::nullopt; }
  int depth() const { return depth_; }

 protected:
  void Hold(
      const Value& value);  // an immutable object says what it keeps, for the bound on nesting

 private:
  int depth_ = 0;
};

class Function : public Object {
 public:
  using Body = std::function<Value(Arguments&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  Function(std::string name, Body body, const Value& self)
      : Function(std::move(name), std::move(body)) {
    Hold(self);
  }
  std::string TypeName() const override { return "function"; }
  std::string Repr() const override { return "<function " + name_ + ">"; }
  bool callable() const override { return true; }
  Value Call(Arguments& arguments) override { return body_(arguments); }

 private:
  std::string name_;
  Body body_;
};

// Python's protocols. Those that can fail throw Failure with Python's (or jinja2's) words.
std::string TypeName(const Value& value);  // "str", "NoneType", "list", ...
bool Truthy(const Value& value);
std::string ToText(const Value& value);  // str()
std::string Repr(const Value& value);
std::string FloatText(double value);
bool Equal(const Value& a, const Value& b);
bool Identical(const Value& a, const Value& b);  // `is`
bool Less(const Value& a, const Value& b, const char* op = "<");
bool Contains(const Value& container, const Value& item);
std::optional<int64_t> LengthOf(const Value& value);
int64_t Length(const Value& value);
bool Iterable(const Value& value);
std::vector<Value> Iterate(const Value& value);  // consumes an iterator
std::string HashText(const Value& value);        // equal for equal keys
[[noreturn]] void FailUndefined(const Value& undefined);

}  // namespace am::text::jinja
