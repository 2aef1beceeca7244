#include "worker/rank_io/rank_event.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace am {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
// A line is written by a program that may be going down: what is longer or deeper than any event is
// no event.
constexpr size_t kMaxLineBytes = 1 << 20;
constexpr int kMaxDepth = 16;

constexpr std::array<std::pair<RankEventType, std::string_view>, 10> kEventNames = {{
    {RankEventType::kHello, "hello"},
    {RankEventType::kReady, "ready"},
    {RankEventType::kStep, "step"},
    {RankEventType::kValidation, "validation"},
    {RankEventType::kCheckpointBegun, "checkpoint_begun"},
    {RankEventType::kCheckpointDone, "checkpoint_done"},
    {RankEventType::kHeartbeat, "heartbeat"},
    {RankEventType::kWarning, "warning"},
    {RankEventType::kFailed, "failed"},
    {RankEventType::kDone, "done"},
}};

constexpr std::array<std::pair<ControlType, std::string_view>, 4> kControlNames = {{
    {ControlType::kRendezvous, "rendezvous"},
    {ControlType::kSave, "save"},
    {ControlType::kLeave, "leave"},
    {ControlType::kDumpStacks, "dump_stacks"},
}};

template <typename Table>
auto FindType(const Table& table, std::string_view name) -> decltype(&table[0]) {
  for (const auto& row : table) {
    if (row.second == name) return &row;
  }
  return nullptr;
}

// Bytes that are not UTF-8 (a path, a message of the system) become U+FFFD: an event is always
// valid JSON.
std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<json> ParseObject(std::string_view line) {
  if (line.size() > kMaxLineBytes) return std::nullopt;
  auto within_depth = [](int depth, json::parse_event_t, json&) { return depth <= kMaxDepth; };
  json object = json::parse(line, within_depth, /*allow_exceptions=*/false);
  if (!object.is_object()) return std::nullopt;
  auto version = object.find("v");
  if (version == object.end() || !version->is_number_integer() || *version != kVersion) {
    return std::nullopt;
  }
  return object;
}

// Takes an integer field out of the object; false when it is there with another type.
template <typename Int>
bool Take(json& object, const char* key, Int& value) {
  auto it = object.find(key);
  if (it == object.end()) return true;
  if (!it->is_number_integer()) return false;
  value = it->get<Int>();
  object.erase(it);
  return true;
}

std::string TakeString(json& object, const char* key) {
  auto it = object.find(key);
  if (it == object.end() || !it->is_string()) return "";
  std::string value = it->get<std::string>();
  object.erase(it);
  return value;
}

int64_t Integer(const json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

// JSON has no NaN: nlohmann writes it as null, and a loss that is null reads "nan" again.
double Number(const json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_number() ? it->get<double>() : std::nan("");
}

std::string Text(const json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string StepLine(const json& fields) {
  char line[256];
  std::snprintf(line, sizeof line,
                "step %lld | epoch %lld | loss %.4f | grad_norm %.4f | mem: %.2f GiB | tps %.2f | "
                "lr %.2e",
                static_cast<long long>(Integer(fields, "step")),
                static_cast<long long>(Integer(fields, "epoch")), Number(fields, "loss"),
                Number(fields, "grad_norm"), Number(fields, "mem_gib"), Number(fields, "tps"),
                Number(fields, "lr"));
  return line;
}

std::string ValidationLine(const json& fields) {
  char head[128];
  std::snprintf(head, sizeof head, "[val] step %lld | epoch %lld | loss %.4f",
                static_cast<long long>(Integer(fields, "step")),
                static_cast<long long>(Integer(fields, "epoch")), Number(fields, "loss"));
  std::string line = head;
  std::string name = Text(fields, "name");
  if (!name.empty() && name != "default") line += " | name " + name;
  return line;
}

}  // namespace

std::string_view Name(RankEventType type) {
  for (const auto& [known, name] : kEventNames) {
    if (known == type) return name;
  }
  return "unknown";
}

std::string ToLine(const RankEvent& event) {
  json object = event.fields.is_object() ? event.fields : json::object();
  object["v"] = kVersion;
  object["type"] = Name(event.type);
  object["seq"] = event.seq;
  object["attempt"] = event.attempt;
  object["rank"] = event.rank;
  object["t_unix_ns"] = event.t_unix_ns;
  object["t_mono_ns"] = event.t_mono_ns;
  return Dump(object);
}

std::optional<RankEvent> ParseRankEvent(std::string_view line) {
  std::optional<json> object = ParseObject(line);
  if (!object) return std::nullopt;
  const auto* known = FindType(kEventNames, TakeString(*object, "type"));
  if (known == nullptr) return std::nullopt;
  RankEvent event;
  event.type = known->first;
  if (!Take(*object, "seq", event.seq) || !Take(*object, "attempt", event.attempt) ||
      !Take(*object, "rank", event.rank) || !Take(*object, "t_unix_ns", event.t_unix_ns) ||
      !Take(*object, "t_mono_ns", event.t_mono_ns)) {
    return std::nullopt;
  }
  object->erase("v");
  event.fields = std::move(*object);
  return event;
}

std::string ToLine(const ControlMessage& message) {
  json object = {{"v", kVersion}};
  for (const auto& [type, name] : kControlNames) {
    if (type == message.type) object["type"] = name;
  }
  if (message.type == ControlType::kRendezvous) {
    object["address"] = message.address;
    object["prefix"] = message.prefix;
  }
  if (message.type == ControlType::kLeave) object["grace_ms"] = message.grace_ms;
  return Dump(object);
}

std::optional<ControlMessage> ParseControlMessage(std::string_view line) {
  std::optional<json> object = ParseObject(line);
  if (!object) return std::nullopt;
  const auto* known = FindType(kControlNames, TakeString(*object, "type"));
  if (known == nullptr) return std::nullopt;
  ControlMessage message;
  message.type = known->first;
  message.address = TakeString(*object, "address");
  message.prefix = TakeString(*object, "prefix");
  if (!Take(*object, "grace_ms", message.grace_ms)) return std::nullopt;
  if (message.type == ControlType::kRendezvous && message.address.empty()) return std::nullopt;
  return message;
}

std::string LogLine(const RankEvent& event) {
  switch (event.type) {
    case RankEventType::kStep:
      return StepLine(event.fields);
    case RankEventType::kValidation:
      return ValidationLine(event.fields);
    case RankEventType::kCheckpointBegun:
      return "Saving checkpoint to " + Text(event.fields, "path");
    case RankEventType::kHello:
    case RankEventType::kReady:
    case RankEventType::kCheckpointDone:
    case RankEventType::kHeartbeat:
    case RankEventType::kWarning:
    case RankEventType::kFailed:
    case RankEventType::kDone:
      return "";
  }
  return "";
}

}  // namespace am
