// A recipe as lines of YAML that load to the same recipe. Scalars keep their spelling, so
// environment tokens stay tokens; text that YAML would read otherwise goes into double quotes;
// secrets are starred out.
#pragma once

#include <string>
#include <vector>

#include "launcher/recipe/value.h"

namespace am::recipe {

struct YamlLine {
  std::string text;             // without its end
  std::string key;              // dotted
  const Value* leaf = nullptr;  // the scalar or the empty map or list that ends it; null: a map or
                                // list follows
};

std::vector<YamlLine> YamlLines(const Value& root);

}  // namespace am::recipe
