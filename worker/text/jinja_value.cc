#include "worker/text/jinja_value.h"

#include <algorithm>
#include <bit>

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

}  // namespace am::text::jinja
