#include "launcher/recipe/target.h"

#include <absl/strings/str_cat.h>

#include <utility>
#include <vector>

#include "launcher/recipe/mismatch.h"
#include "launcher/recipe/suggest.h"

namespace am::recipe {
namespace {

// A hundred for each letter of the class name that differs, one for each of the whole.
constexpr int kNotTrainablePenalty = 200;
constexpr int kFarTarget = 700;
constexpr size_t kTiedTargets = 3;  // as near as each other

constexpr std::string_view kTargetName[] = {"_target_"};

// Class names say more than the modules they lie in; one that begins with what was written is as
// good as it.
int TargetDistance(std::string_view wanted, std::string_view known) {
  wanted = wanted.substr(0, 200);
  std::string_view wanted_class = wanted.substr(wanted.find_last_of(".:") + 1);
  std::string_view known_class = known.substr(known.rfind('.') + 1);
  if (wanted_class.size() > 3 && known_class.starts_with(wanted_class)) return 0;
  return 100 * EditDistance(wanted_class, known_class) + EditDistance(wanted, known);
}

// The nearest targets of a section's parts, one of a part, and the first one's part.
std::pair<std::vector<std::string_view>, const Part*> FindNearest(const Section& section,
                                                                  std::string_view wanted) {
  std::pair<std::vector<std::string_view>, const Part*> best;
  int least = kFarTarget - 1;
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      for (std::string_view target : Split(part.targets, ' ')) {
        // Of two that are as near, one that can be trained.
        bool honoured = part.support == Support::kHonoured;
        int distance = TargetDistance(wanted, target) + (honoured ? 0 : kNotTrainablePenalty);
        if (target == "*" || distance > least || (distance == least && best.second == &part)) {
          continue;
        }
        if (distance < least || !best.second) best = {{}, &part};
        least = distance;
        best.first.push_back(target);
      }
    }
  }
  return best;
}

// The parts that can be trained, by their first target.
std::string Trainable(const Section& section) {
  std::string names;
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      if (part.support != Support::kHonoured) continue;
      std::string_view first = Split(part.targets, ' ').front();
      names += (names.empty() ? "" : ", ") + std::string(first);
    }
  }
  return names;
}

}  // namespace

const NodeEntry* TargetOf(const Section& section, const Node& node) {
  if (const NodeEntry* target = node.Find("_target_")) return target;
  for (const NodeEntry& entry : node.entries) {
    if (entry.key.find("target") == std::string::npos &&
        EditDistance(entry.key.substr(0, 20), "_target_") > 2) {
      continue;
    }
    bool scalar = entry.value.kind == Node::Kind::kScalar;
    if (scalar && FindPart(section, entry.value.text) && Nearest(entry.key, kTargetName) != "") {
      return &entry;
    }
  }
  return nullptr;
}

std::string NearestTarget(const Section& section, std::string_view wanted) {
  std::vector<std::string_view> targets = FindNearest(section, wanted).first;
  if (targets.size() > kTiedTargets) targets.resize(kTiedTargets);
  return OrWords(targets);
}

const Part* NearestPart(const Section& section, std::string_view wanted) {
  return FindNearest(section, wanted).second;
}

const Part* PartWith(const Section& section, std::string_view key) {
  for (const Part& part : section.parts) {
    bool honoured = part.support == Support::kHonoured;
    if (honoured && FindKey({.keys = part.keys}, nullptr, key)) return &part;
  }
  return nullptr;
}

Diagnostic RefusedTarget(const Section& section, const Node& node, const std::string& path) {
  std::string_view wanted = node.text;
  std::string shown = Shown(node, path);
  if (wanted.find(".py:") != std::string_view::npos) {
    return {.place = node.place,
            .key = path,
            .message = absl::StrCat(shown, " is Python code, which is never run here"),
            .hint = absl::StrCat("known: ", Trainable(section))};
  }
  std::string best = NearestTarget(section, wanted);
  return {.place = node.place,
          .key = path,
          .message = absl::StrCat(shown, " is not one of the parts that are built in"),
          .hint = best.empty() ? absl::StrCat("known: ", Trainable(section))
                               : absl::StrCat("did you mean ", best, "?")};
}

}  // namespace am::recipe
