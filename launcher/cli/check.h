// What `validate` and `plan` have in common: a recipe is loaded, laid out where machines are named,
// and everything there is to say about it gathered. Starts nothing.
#pragma once

#include <optional>
#include <string>

#include "launcher/cli/check_words.h"
#include "launcher/plan/cluster.h"
#include "launcher/plan/plan.h"
#include "launcher/recipe/diagnostic.h"

namespace am::cli {

struct Checked {
  std::optional<plan::Plan> plan;  // where a cluster was given and nothing is wrong
  recipe::Diagnostics diagnostics;
};

// Without a cluster only what no machines at all could meet is refused.
Checked Check(const std::string& path, const CheckWords& words,
              const std::optional<plan::Cluster>& cluster);

// Colour where a person reads it.
bool WantsColor(const std::ostream& stream);

}  // namespace am::cli
