// What the language brings along: filters, tests, methods of the built-in types, operators and
// global functions.
#pragma once

#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "worker/text/jinja_value.h"

namespace am::text::jinja {

// Binds call arguments to parameter names; refuses unknown and surplus ones as Python does.
class Parameters {
 public:
  Parameters(const char* function, Arguments& arguments, std::initializer_list<const char*> names,
             size_t required = 0);
  const Value* Get(size_t i) const { return bound_[i] ? &*bound_[i] : nullptr; }
  const Value& At(size_t i) const { return *bound_[i]; }  // of a required one
  int64_t Int(size_t i, int64_t otherwise) const;
  bool Bool(size_t i, bool otherwise) const { return bound_[i] ? Truthy(*bound_[i]) : otherwise; }
  const std::string& Text(size_t i) const;  // of a required one
  bool Absent(size_t i) const { return !bound_[i] || bound_[i]->is_none(); }

 private:
  const char* function_;
  std::vector<std::optional<Value>> bound_;
};

using FilterFunction = Value (*)(const Value& value, Arguments& arguments);
using FilterTable = std::unordered_map<std::string, FilterFunction>;
const FilterTable& TextFilters();
const FilterTable& SequenceFilters();

bool HasFilter(const std::string& name);
bool HasTest(const std::string& name);
Value ApplyFilter(const std::string& name, const Value& value, Arguments& arguments);
bool ApplyTest(const std::string& name, const Value& value, Arguments& arguments);

// A bound method of a str, list, tuple, dict, int or float; nothing when there is none of that
// name.
std::optional<Value> MethodOf(const Value& self, const std::string& name);

// `.` prefers the attribute, `[]` the item, as jinja2's sandbox does. Undefined when there is
// neither.
Value GetAttribute(const Value& object, const std::string& name);
Value GetItem(const Value& object, const Value& key);
Value GetSlice(const Value& object, const Value& start, const Value& stop, const Value& step);
Value Call(const Value& callee, Arguments& arguments);
Value Binary(const std::string& op, const Value& left, const Value& right);
bool Compare(const std::string& op, const Value& left, const Value& right);

// json.dumps as transformers' tojson calls it.
Value ToJson(const Value& value, Arguments& arguments);
Value ReplaceText(const std::string& text, const std::string& from, const std::string& to,
                  int64_t count, bool markup = false);
Value JoinTexts(const std::string& separator, const std::vector<Value>& items, bool only_strings);
std::string EscapeHtml(const std::string& text);

// A namespace: the one object that templates can change.
class Namespace : public Object {
 public:
  explicit Namespace(Dict attributes) : attributes_(std::move(attributes)) {}
  std::string TypeName() const override { return "Namespace"; }
  std::string Repr() const override;
  std::optional<Value> Attribute(const std::string& name) override;
  void Set(const std::string& name, Value value) {
    attributes_.Set(Value::Str(name), std::move(value));
  }
  void Clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

// range, dict, namespace, cycler, joiner, raise_exception, strftime_now. Every namespace made is
// noted in `namespaces`: they may refer to each other in circles, so their owner clears them when
// the rendering ends.
std::unordered_map<std::string, Value> Globals(std::time_t now,
                                               std::vector<std::shared_ptr<Namespace>>& namespaces);

}  // namespace am::text::jinja
