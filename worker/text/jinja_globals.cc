// Global functions of a template.
#include <algorithm>
#include <array>

#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // the sandbox's own limit

Value Range(Arguments& arguments) {
  const Parameters p("range", arguments, {"start", "stop", "step"}, 1);
  int64_t start = 0;
  int64_t stop = p.Int(0, 0);
  if (p.Get(1) != nullptr) {
    start = stop;
    stop = p.Int(1, 0);
  }
  const int64_t step = p.Int(2, 1);
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      throw Failure("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    items.push_back(Value::Int(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  std::string label = "range(" + std::to_string(start) + ", " + std::to_string(stop);
  if (step != 1) label += ", " + std::to_string(step);
  return Value::Make(Kind::kRange, std::move(items), label + ")");
}

// dict(mapping or pairs, **named)
Dict MakeDict(const char* function, Arguments& arguments) {
  Dict dict;
  if (arguments.positional.size() > 1)
    throw Failure(std::string(function) + " expected at most 1 argument, got " +
                  std::to_string(arguments.positional.size()));
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().items()) dict.Set(key, value);
    } else {
      for (const Value& pair : Iterate(source)) {
        const std::vector<Value> parts = Iterate(pair);
        if (parts.size() != 2)
          throw Failure("dictionary update sequence element has length " +
                        std::to_string(parts.size()) + "; 2 is required");
        dict.Set(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.Set(Value::Str(name), value);
  return dict;
}

class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) Hold(item);
  }
  std::string TypeName() const override { return "Cycler"; }
  std::optional<Value> Attribute(const std::string& name) override {
    if (name == "current") return items_[position_];
    if (name == "next") {
      return Method([](Cycler& self) {
        Value now = self.items_[self.position_];
        self.position_ = (self.position_ + 1) % self.items_.size();
        return now;
      });
    }
    if (name == "reset") {
      return Method([](Cycler& self) {
        self.position_ = 0;
        return Value::None();
      });
    }
    return std::nullopt;
  }

 private:
  Value Method(Value (*body)(Cycler&)) {
    return Value::FromObject(std::make_shared<Function>(
        "cycler", [self = shared_from_this(), body](Arguments&) { return body(*self); },
        Value::FromObject(shared_from_this())));
  }

  std::vector<Value> items_;
  size_t position_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) { Hold(separator_); }
  std::string TypeName() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value Call(Arguments&) override {
    return std::exchange(used_, true) ? separator_ : Value::Str("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

Value Strftime(const std::string& format, std::time_t now) {
  std::tm local{};
  localtime_r(&now, &local);
  if (format.empty()) return Value::Str("");
  std::string text(std::min<size_t>(format.size() * 64 + 64, 1 << 16), '\0');
  std::string with_micros;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && i + 1 < format.size()) {
      // datetime's %f are microseconds; the clock of a rendering has whole seconds.
      with_micros += format[i + 1] == 'f' ? "000000" : format.substr(i, 2);
      ++i;
    } else {
      with_micros += format[i];
    }
  }
  text.resize(std::strftime(text.data(), text.size(), with_micros.c_str(), &local));
  return Value::Str(std::move(text));
}

Value MakeFunction(const char* name, Function::Body body) {
  return Value::FromObject(std::make_shared<Function>(name, std::move(body)));
}

}  // namespace

std::string Namespace::Repr() const {
  // A namespace may hold itself; Python prints "..." there too.
  thread_local int level = 0;
  if (level > 20) return "<Namespace ...>";
  ++level;
  std::string text = "<Namespace {";
  try {
    bool first = true;
    for (const auto& [key, value] : attributes_.items()) {
      text += (first ? "" : ", ") + jinja::Repr(key) + ": " + jinja::Repr(value);
      first = false;
    }
  } catch (...) {
    --level;
    throw;
  }
  --level;
  return text + "}>";
}

std::optional<Value> Namespace::Attribute(const std::string& name) {
  const Value* found = attributes_.Find(name);
  return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
}

std::unordered_map<std::string, Value> Globals(
    std::time_t now, std::vector<std::shared_ptr<Namespace>>& namespaces) {
  std::unordered_map<std::string, Value> globals;
  globals["range"] = MakeFunction("range", Range);
  globals["dict"] =
      MakeFunction("dict", [](Arguments& a) { return Value::FromDict(MakeDict("dict", a)); });
  globals["namespace"] = MakeFunction("namespace", [&namespaces](Arguments& a) {
    namespaces.push_back(std::make_shared<Namespace>(MakeDict("namespace", a)));
    return Value::FromObject(namespaces.back());
  });
  globals["cycler"] = MakeFunction("cycler", [](Arguments& a) {
    if (a.positional.empty()) throw Failure("at least one item has to be provided");
    return Value::FromObject(std::make_shared<Cycler>(a.positional));
  });
  globals["joiner"] = MakeFunction("joiner", [](Arguments& a) {
    const Parameters p("joiner", a, {"sep"});
    return Value::FromObject(
        std::make_shared<Joiner>(p.Get(0) != nullptr ? *p.Get(0) : Value::Str(", ")));
  });
  globals["raise_exception"] = MakeFunction("raise_exception", [](Arguments& a) -> Value {
    const Parameters p("raise_exception", a, {"message"}, 1);
    throw Failure(ToText(p.At(0)));
  });
  globals["strftime_now"] = MakeFunction("strftime_now", [now](Arguments& a) {
    const Parameters p("strftime_now", a, {"format"}, 1);
    return Strftime(p.Text(0), now);
  });
  return globals;
}

}  // namespace am::text::jinja
