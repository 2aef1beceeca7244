#include "worker/text/jinja_value.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

constexpr size_t kSmallDict = 8;  // up to this many keys a scan is quicker than a hash
thread_local WorkMeter* current_meter = nullptr;

void CheckDepth(int depth) {
  if (depth > kMaxDepth) {
    throw Failure("a value nests deeper than " + std::to_string(kMaxDepth) + " levels");
  }
}

bool SameKey(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  return HashText(a) == HashText(b);
}

}  // namespace

WorkMeter::WorkMeter(uint64_t limit) : left_(limit), outer_(current_meter) { current_meter = this; }
WorkMeter::~WorkMeter() { current_meter = outer_; }

void ChargeWork(uint64_t units) {
  if (current_meter == nullptr) return;
  if (units > current_meter->left_) {
    throw Failure("the template does too much work for one conversation; does a loop not end?");
  }
  current_meter->left_ -= units;
}

TextBuilder& TextBuilder::operator+=(std::string_view piece) {
  if (text_.size() + piece.size() > kMaxTextBytes) {
    throw Failure("a string of the template outgrows " + std::to_string(kMaxTextBytes >> 20) +
                  " MiB");
  }
  ChargeWork(1 + piece.size() / 16);
  text_ += piece;
  return *this;
}

struct StringBox {
  std::string text;
  bool markup = false;
};

Value Value::Bool(bool b) {
  Value value;
  value.kind_ = Kind::kBool;
  value.integer_ = b ? 1 : 0;
  return value;
}

Value Value::Int(int64_t i) {
  Value value;
  value.kind_ = Kind::kInt;
  value.integer_ = i;
  return value;
}

Value Value::Float(double d) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.integer_ = std::bit_cast<int64_t>(d);
  return value;
}

Value Value::Str(std::string text, bool markup) {
  if (text.size() > kMaxTextBytes) {
    throw Failure("a string of the template outgrows " + std::to_string(kMaxTextBytes >> 20) +
                  " MiB");
  }
  ChargeWork(1 + text.size() / 16);
  Value value;
  value.kind_ = Kind::kString;
  value.shared_ = std::make_shared<StringBox>(StringBox{std::move(text), markup});
  return value;
}

Value Value::Make(Kind kind, std::vector<Value> items, std::string label) {
  ChargeWork(1 + items.size());
  auto sequence = std::make_shared<Sequence>();
  for (const Value& item : items) sequence->depth = std::max(sequence->depth, item.depth() + 1);
  CheckDepth(sequence->depth);
  sequence->items = std::move(items);
  sequence->label = std::move(label);
  Value value;
  value.kind_ = kind;
  value.shared_ = std::move(sequence);
  return value;
}

Value Value::FromDict(Dict dict) {
  ChargeWork(1 + dict.size());
  CheckDepth(dict.depth());
  Value value;
  value.kind_ = Kind::kDict;
  value.shared_ = std::make_shared<Dict>(std::move(dict));
  return value;
}

Value Value::FromObject(std::shared_ptr<Object> object) {
  Value value;
  value.kind_ = Kind::kObject;
  value.shared_ = std::make_shared<std::shared_ptr<Object>>(std::move(object));
  return value;
}

Value Value::Undefined(std::string message) {
  Value value;
  value.kind_ = Kind::kUndefined;
  value.shared_ = std::make_shared<StringBox>(StringBox{std::move(message), false});
  return value;
}

Value Value::FromJson(const nlohmann::ordered_json& json) {
  // A C++ stack frame of JSON's own depth is bounded by the depth check of each container on the
  // way back, and by this count on the way down.
  thread_local int level = 0;
  struct Level {
    Level() { CheckDepth(++level); }
    ~Level() { --level; }
  };
  using Json = nlohmann::ordered_json;
  switch (json.type()) {
    case Json::value_t::boolean:
      return Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Int(json.get<int64_t>());
    case Json::value_t::number_float:
      return Float(json.get<double>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw Failure("the integer " + json.dump() + " does not fit 64 bits");
      }
      return Int(json.get<int64_t>());
    case Json::value_t::string: {
      const std::string& text = json.get_ref<const std::string&>();
      if (const auto offset = FindInvalidUtf8(text)) {
        throw Failure("invalid UTF-8 at byte " + std::to_string(*offset) +
                      " of a string of the conversation");
      }
      return Str(text);
    }
    case Json::value_t::array: {
      Level guard;
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(FromJson(item));
      return List(std::move(items));
    }
    case Json::value_t::object: {
      Level guard;
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        if (FindInvalidUtf8(key)) throw Failure("invalid UTF-8 in a key of the conversation");
        dict.Set(Str(key), FromJson(item));
      }
      return FromDict(std::move(dict));
    }
    default:
      return None();
  }
}

double Value::real() const {
  return kind_ == Kind::kFloat ? std::bit_cast<double>(integer_) : static_cast<double>(integer_);
}
const std::string& Value::text() const {
  return static_cast<const StringBox*>(shared_.get())->text;
}
bool Value::markup() const {
  return is_string() && static_cast<const StringBox*>(shared_.get())->markup;
}
Sequence& Value::sequence() const { return *static_cast<Sequence*>(shared_.get()); }
const Dict& Value::dict() const { return *static_cast<const Dict*>(shared_.get()); }
const std::shared_ptr<Object>& Value::object() const {
  return *static_cast<const std::shared_ptr<Object>*>(shared_.get());
}

int Value::depth() const {
  if (is_sequence()) return sequence().depth;
  if (is_dict()) return dict().depth();
  if (kind_ == Kind::kObject) return object()->depth();
  return 0;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  CheckDepth(depth_);
  std::string hash = items_.size() < kSmallDict && key.is_string() ? std::string() : HashText(key);
  if (const Value* found = Find(key)) {
    const_cast<Value&>(*found) = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() < kSmallDict) return;
  if (items_.size() == kSmallDict) {
    for (size_t i = 0; i < items_.size(); ++i) index_.emplace(HashText(items_[i].first), i);
  } else {
    index_.emplace(std::move(hash), items_.size() - 1);
  }
}

const Value* Dict::Find(const Value& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(HashText(key));
    return found == index_.end() ? nullptr : &items_[found->second].second;
  }
  if (!key.is_string())
    HashText(key);  // refuses what has no hash, as Python does for an empty dict too
  for (const auto& [candidate, value] : items_) {
    if (SameKey(candidate, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find("s" + std::string(key));
    return found == index_.end() ? nullptr : &items_[found->second].second;
  }
  for (const auto& [candidate, value] : items_) {
    if (candidate.is_string() && candidate.text() == key) return &value;
  }
  return nullptr;
}

std::optional<Value> Object::Attribute(const std::string&) { return std::nullopt; }
void Object::Hold(const Value& value) {
  depth_ = std::max(depth_, value.depth() + 1);
  CheckDepth(depth_);
}
Value Object::Call(Arguments&) { throw Failure("'" + TypeName() + "' object is not callable"); }

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.sequence().label;
    case Kind::kIterator:
      return "generator";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object()->TypeName();
  }
  return "";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.sequence().items.empty();
    case Kind::kIterator:
      return true;
    case Kind::kDict:
      return value.dict().size() != 0;
    case Kind::kObject:
      return value.object()->Length().value_or(1) != 0;
  }
  return false;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16)
    return text;  // Python's form too: two digits of exponent at least
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

namespace {

void AppendRepr(TextBuilder& out, const Value& value);

void AppendItems(TextBuilder& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(out, items[i]);
  }
}

void AppendRepr(TextBuilder& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      break;
    case Kind::kString:
      if (value.markup()) out += "Markup(";
      out += QuotedText(value.text());
      if (value.markup()) out += ')';
      break;
    case Kind::kList:
      out += '[';
      AppendItems(out, value.sequence().items);
      out += ']';
      break;
    case Kind::kTuple:
      out += '(';
      AppendItems(out, value.sequence().items);
      if (value.sequence().items.size() == 1) out += ',';
      out += ')';
      break;
    case Kind::kRange:
      out += value.sequence().label;
      break;
    case Kind::kView:
      out += value.sequence().label;
      out += "([";
      AppendItems(out, value.sequence().items);
      out += "])";
      break;
    case Kind::kIterator:
      out += "<generator object>";
      break;
    case Kind::kDict: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.dict().items()) {
        if (!first) out += ", ";
        first = false;
        AppendRepr(out, key);
        out += ": ";
        AppendRepr(out, item);
      }
      out += '}';
      break;
    }
    case Kind::kObject:
      out += value.object()->Repr();
      break;
    default:
      out += ToText(value);
  }
}

}  // namespace

std::string Repr(const Value& value) {
  TextBuilder out;
  AppendRepr(out, value);
  return out.Take();
}

std::string ToText(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kFloat:
      return FloatText(value.real());
    case Kind::kString:
      return value.text();
    default:
      return Repr(value);
  }
}

bool Identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return a.integer() == b.integer();
    case Kind::kString:
      return a.identity() == b.identity() || a.text() == b.text();
    case Kind::kObject:
      return a.object() == b.object();
    default:
      return a.identity() != nullptr && a.identity() == b.identity();
  }
}

bool Equal(const Value& a, const Value& b) {
  ChargeWork(1);
  if (a.is_number() && b.is_number()) {
    return a.is_int() && b.is_int() ? a.integer() == b.integer() : a.real() == b.real();
  }
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kObject:
      return a.object() == b.object();
    case Kind::kIterator:
      return a.identity() == b.identity();
    case Kind::kDict: {
      if (a.identity() == b.identity()) return true;
      if (a.dict().size() != b.dict().size()) return false;
      for (const auto& [key, value] : a.dict().items()) {
        const Value* other = b.dict().Find(key);
        if (other == nullptr || !Equal(value, *other)) return false;
      }
      return true;
    }
    default: {
      if (a.identity() == b.identity()) return true;
      const auto& left = a.sequence().items;
      const auto& right = b.sequence().items;
      if (left.size() != right.size()) return false;
      for (size_t i = 0; i < left.size(); ++i) {
        if (!Equal(left[i], right[i])) return false;
      }
      return true;
    }
  }
}

bool Less(const Value& a, const Value& b, const char* op) {
  ChargeWork(1);
  if (a.is_undefined()) FailUndefined(a);
  if (b.is_undefined()) FailUndefined(b);
  if (a.is_int() && b.is_int()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_string() && b.is_string()) return a.text() < b.text();  // UTF-8 sorts as code points do
  if (a.kind() == b.kind() && (a.kind() == Kind::kList || a.kind() == Kind::kTuple)) {
    const auto& left = a.sequence().items;
    const auto& right = b.sequence().items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!Equal(left[i], right[i])) return Less(left[i], right[i], op);
    }
    return left.size() < right.size();
  }
  throw Failure(std::string("'") + op + "' not supported between instances of '" + TypeName(a) +
                "' and '" + TypeName(b) + "'");
}

bool Contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) FailUndefined(item);
      throw Failure("'in <string>' requires string as left operand, not " + TypeName(item));
    }
    ChargeWork(1 + container.text().size() / 16);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().Find(item) != nullptr;
  if (!Iterable(container))
    throw Failure("argument of type '" + TypeName(container) + "' is not iterable");
  for (const Value& candidate : Iterate(container)) {
    if (Equal(candidate, item)) return true;
  }
  return false;
}

std::optional<int64_t> LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCodePoints(value.text());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().size());
    case Kind::kObject:
      return value.object()->Length();
    default:
      return std::nullopt;
  }
}

int64_t Length(const Value& value) {
  if (const auto length = LengthOf(value)) return *length;
  throw Failure("object of type '" + TypeName(value) + "' has no len()");
}

bool Iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}

std::vector<Value> Iterate(const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kString: {
      const std::string& text = value.text();
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        NextCodePoint(text, at);
        items.push_back(Value::Str(text.substr(begin, at - begin)));
      }
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      items = value.sequence().items;
      break;
    case Kind::kIterator: {
      Sequence& iterator = value.sequence();
      items.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                   iterator.items.end());
      iterator.next = iterator.items.size();
      break;
    }
    case Kind::kDict:
      for (const auto& [key, item] : value.dict().items()) items.push_back(key);
      break;
    default:
      throw Failure("'" + TypeName(value) + "' object is not iterable");
  }
  ChargeWork(1 + items.size());
  return items;
}

std::string HashText(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return "s" + value.text();
    case Kind::kNone:
      return "N";
    case Kind::kUndefined:
      return "U";
    case Kind::kBool:
    case Kind::kInt:
      return "n" + std::to_string(value.integer());
    case Kind::kFloat: {
      const double real = value.real();
      if (real == std::floor(real) && std::fabs(real) < 9e18) {
        return "n" + std::to_string(static_cast<int64_t>(real));
      }
      return "n" + FloatText(real);
    }
    case Kind::kTuple: {
      TextBuilder out;
      out += 't';
      for (const Value& item : value.sequence().items) {
        const std::string part = HashText(item);
        out += std::to_string(part.size());
        out += ':';
        out += part;
      }
      return out.Take();
    }
    case Kind::kObject:
      return "o" + std::to_string(reinterpret_cast<uintptr_t>(value.object().get()));
    default:
      throw Failure("unhashable type: '" + TypeName(value) + "'");
  }
}

void FailUndefined(const Value& undefined) { throw Failure(undefined.text()); }

}  // namespace am::text::jinja
