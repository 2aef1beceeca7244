// Filters on sequences. The lazy ones of jinja2 return iterators here too: consumed once, without a
// length, always true.
#include <algorithm>
#include <functional>

#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {
namespace {

Value IgnoreCase(const Value& value) {
  return value.is_string() ? Value::Str(Lower(value.text())) : value;
}

// "a.b.0" or 1: the path of make_attrgetter.
std::vector<Value> AttributePath(const std::string& path) {
  std::vector<Value> parts;
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool digits = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string::npos;
    parts.push_back(digits ? Value::Int(std::stoll(part)) : Value::Str(part));
    begin = end + 1;
  }
  return parts;
}

std::vector<Value> PathOf(const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return {};
  return attribute->is_string() ? AttributePath(attribute->text()) : std::vector<Value>{*attribute};
}

Value Follow(Value item, const std::vector<Value>& path, const Value* otherwise = nullptr) {
  for (const Value& part : path) {
    item = GetItem(item, part);
    if (otherwise != nullptr && !otherwise->is_none() && item.is_undefined()) item = *otherwise;
  }
  return item;
}

void SortStable(std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(), [reverse](const auto& a, const auto& b) {
    return reverse ? Less(b.first, a.first) : Less(a.first, b.first);
  });
}

std::vector<Value> SortedBy(const std::vector<Value>& items,
                            const std::function<Value(const Value&)>& key, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(key(item), item);
  SortStable(keyed, reverse);
  std::vector<Value> out;
  for (auto& [unused, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value SortFilter(const Value& value, Arguments& arguments) {
  const Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::vector<Value>> paths;
  if (!p.Absent(2) && p.Get(2)->is_string()) {
    const std::string& text = p.Get(2)->text();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      paths.push_back(AttributePath(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  } else {
    paths.push_back(PathOf(p.Get(2)));
  }
  const bool case_sensitive = p.Bool(1, false);
  const auto key = [&](const Value& item) {
    std::vector<Value> parts;
    for (const auto& path : paths) {
      const Value part = Follow(item, path);
      parts.push_back(case_sensitive ? part : IgnoreCase(part));
    }
    return Value::List(std::move(parts));
  };
  return Value::List(SortedBy(Iterate(value), key, p.Bool(0, false)));
}

Value DictSort(const Value& value, Arguments& arguments) {
  const Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = p.Get(1) != nullptr ? p.Text(1) : "key";
  if (by != "key" && by != "value")
    throw Failure("You can only sort by either \"key\" or \"value\"");
  if (!value.is_dict()) throw Failure("dictsort needs a mapping, got " + TypeName(value));
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.dict().items()) pairs.push_back(Value::Tuple({key, item}));
  const auto key = [&](const Value& pair) {
    const Value& part = pair.sequence().items[by == "key" ? 0 : 1];
    return p.Bool(0, false) ? part : IgnoreCase(part);
  };
  return Value::List(SortedBy(pairs, key, p.Bool(2, false)));
}

Value GroupBy(const Value& value, Arguments& arguments) {
  const Parameters p("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const std::vector<Value> path = PathOf(p.Get(0));
  const auto raw = [&](const Value& item) { return Follow(item, path, p.Get(1)); };
  const auto key = [&](const Value& item) {
    return p.Bool(2, false) ? raw(item) : IgnoreCase(raw(item));
  };
  std::vector<Value> groups;
  std::vector<Value> group;
  const auto flush = [&] {
    if (group.empty()) return;
    Value name = raw(group[0]);
    groups.push_back(
        Value::Make(Kind::kTuple, {std::move(name), Value::List(std::move(group))}, "group"));
    group = {};
  };
  for (const Value& item : SortedBy(Iterate(value), key, false)) {
    if (!group.empty() && !Equal(key(group[0]), key(item))) flush();
    group.push_back(item);
  }
  flush();
  return Value::List(std::move(groups));
}

Value UniqueFilter(const Value& value, Arguments& arguments) {
  const Parameters p("unique", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> path = PathOf(p.Get(1));
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : Iterate(value)) {
    Value key = Follow(item, path);
    if (!p.Bool(0, false)) key = IgnoreCase(key);
    if (seen.Find(key) != nullptr) continue;
    seen.Set(key, Value::None());
    out.push_back(item);
  }
  return Value::Iterator(std::move(out));
}

template <bool kMax>
Value Extreme(const Value& value, Arguments& arguments) {
  const Parameters p(kMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> path = PathOf(p.Get(1));
  const std::vector<Value> items = Iterate(value);
  if (items.empty()) return Value::Undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const Value& item) {
    const Value part = Follow(item, path);
    return p.Bool(0, false) ? part : IgnoreCase(part);
  };
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (kMax ? Less(key(items[best]), key(items[i]), ">") : Less(key(items[i]), key(items[best])))
      best = i;
  }
  return items[best];
}

Value SumFilter(const Value& value, Arguments& arguments) {
  const Parameters p("sum", arguments, {"attribute", "start"});
  const std::vector<Value> path = PathOf(p.Get(0));
  Value sum = p.Get(1) != nullptr ? *p.Get(1) : Value::Int(0);
  if (sum.is_string()) throw Failure("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : Iterate(value)) sum = Binary("+", sum, Follow(item, path));
  return sum;
}

Value JoinFilter(const Value& value, Arguments& arguments) {
  const Parameters p("join", arguments, {"d", "attribute"});
  const std::vector<Value> path = PathOf(p.Get(1));
  std::vector<Value> items = Iterate(value);
  for (Value& item : items) item = Follow(item, path);
  return JoinTexts(p.Get(0) != nullptr ? ToText(*p.Get(0)) : "", items, false);
}

Value FirstFilter(const Value& value, Arguments& arguments) {
  Parameters("first", arguments, {});
  if (value.kind() == Kind::kIterator) {
    Sequence& iterator = value.sequence();
    if (iterator.next < iterator.items.size()) return iterator.items[iterator.next++];
    return Value::Undefined("No first item, sequence was empty.");
  }
  if (value.is_string() && !value.text().empty()) return GetItem(value, Value::Int(0));
  std::vector<Value> items = Iterate(value);
  return items.empty() ? Value::Undefined("No first item, sequence was empty.") : items.front();
}

bool Reversible(const Value& value) { return value.kind() != Kind::kIterator && Iterable(value); }

Value LastFilter(const Value& value, Arguments& arguments) {
  Parameters("last", arguments, {});
  if (!Reversible(value)) throw Failure("'" + TypeName(value) + "' object is not reversible");
  std::vector<Value> items = Iterate(value);
  return items.empty() ? Value::Undefined("No last item, sequence was empty.") : items.back();
}

Value ReverseFilter(const Value& value, Arguments& arguments) {
  Parameters("reverse", arguments, {});
  if (!Iterable(value)) throw Failure("argument must be iterable");
  std::vector<Value> items = Iterate(value);
  std::reverse(items.begin(), items.end());
  if (value.is_string()) return JoinTexts("", items, true);
  return value.kind() == Kind::kIterator ? Value::List(std::move(items))
                                         : Value::Iterator(std::move(items));
}

Value ListFilter(const Value& value, Arguments& arguments) {
  Parameters("list", arguments, {});
  return Value::List(Iterate(value));
}

Value LengthFilter(const Value& value, Arguments& arguments) {
  Parameters("length", arguments, {});
  return Value::Int(Length(value));
}

Value ItemsFilter(const Value& value, Arguments& arguments) {
  Parameters("items", arguments, {});
  std::vector<Value> pairs;
  if (!value.is_undefined()) {
    if (!value.is_dict()) throw Failure("Can only get item pairs from a mapping.");
    for (const auto& [key, item] : value.dict().items()) pairs.push_back(Value::Tuple({key, item}));
  }
  return Value::Iterator(std::move(pairs));
}

Value BatchFilter(const Value& value, Arguments& arguments) {
  const Parameters p("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t size = p.Int(0, 1);
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (const Value& item : Iterate(value)) {
    if (static_cast<int64_t>(batch.size()) == size)
      batches.push_back(Value::List(std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (!p.Absent(1) && static_cast<int64_t>(batch.size()) < size) {
      ChargeWork(1);
      batch.push_back(p.At(1));
    }
    batches.push_back(Value::List(std::move(batch)));
  }
  return Value::Iterator(std::move(batches));
}

Value SliceFilter(const Value& value, Arguments& arguments) {
  const Parameters p("slice", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = Iterate(value);
  const int64_t slices = p.Int(0, 1);
  if (slices == 0) throw Failure("integer division or modulo by zero");
  const auto length = static_cast<int64_t>(items.size());
  std::vector<Value> out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < length % slices;
    const int64_t end = at + length / slices + (extra ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + end);
    if (!p.Absent(1) && !extra) part.push_back(p.At(1));
    out.push_back(Value::List(std::move(part)));
    at = end;
  }
  return Value::Iterator(std::move(out));
}

Value MapFilter(const Value& value, Arguments& arguments) {
  std::vector<Value> out;
  if (arguments.positional.empty() && !arguments.named.empty()) {
    const Parameters p("map", arguments, {"attribute", "default"});
    const std::vector<Value> path = PathOf(p.Get(0));
    for (const Value& item : Iterate(value)) out.push_back(Follow(item, path, p.Get(1)));
    return Value::Iterator(std::move(out));
  }
  if (arguments.positional.empty()) throw Failure("map requires a filter argument");
  const std::string name = ToText(arguments.positional[0]);
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  for (const Value& item : Iterate(value)) {
    Arguments own = rest;
    out.push_back(ApplyFilter(name, item, own));
  }
  return Value::Iterator(std::move(out));
}

template <bool kKeep, bool kAttribute>
Value SelectFilter(const Value& value, Arguments& arguments) {
  Arguments rest = arguments;
  std::vector<Value> path;
  if (kAttribute) {
    if (rest.positional.empty()) throw Failure("Missing parameter for attribute name");
    path = PathOf(&rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  std::optional<std::string> test;
  if (!rest.positional.empty()) {
    test = ToText(rest.positional[0]);
    rest.positional.erase(rest.positional.begin());
  }
  std::vector<Value> out;
  for (const Value& item : Truthy(value) ? Iterate(value) : std::vector<Value>()) {
    const Value subject = Follow(item, path);
    Arguments own = rest;
    if ((test ? ApplyTest(*test, subject, own) : Truthy(subject)) == kKeep) out.push_back(item);
  }
  return Value::Iterator(std::move(out));
}

Value AttrFilter(const Value& value, Arguments& arguments) {
  const Parameters p("attr", arguments, {"name"}, 1);
  if (value.is_undefined()) FailUndefined(value);
  const std::string& name = p.Text(0);
  if (value.kind() == Kind::kObject || MethodOf(value, name)) return GetAttribute(value, name);
  return Value::Undefined("'" + TypeName(value) + " object' has no attribute " + QuotedText(name));
}

}  // namespace

const FilterTable& SequenceFilters() {
  static const FilterTable table = {
      {"attr", AttrFilter},
      {"batch", BatchFilter},
      {"count", LengthFilter},
      {"dictsort", DictSort},
      {"first", FirstFilter},
      {"groupby", GroupBy},
      {"items", ItemsFilter},
      {"join", JoinFilter},
      {"last", LastFilter},
      {"length", LengthFilter},
      {"list", ListFilter},
      {"map", MapFilter},
      {"max", Extreme<true>},
      {"min", Extreme<false>},
      {"reject", SelectFilter<false, false>},
      {"rejectattr", SelectFilter<false, true>},
      {"reverse", ReverseFilter},
      {"select", SelectFilter<true, false>},
      {"selectattr", SelectFilter<true, true>},
      {"slice", SliceFilter},
      {"sort", SortFilter},
      {"sum", SumFilter},
      {"unique", UniqueFilter},
  };
  return table;
}

}  // namespace am::text::jinja
