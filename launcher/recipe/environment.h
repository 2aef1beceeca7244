// Environment variables in values: ${VAR}, ${VAR,default}, ${oc.env:VAR}, ${oc.env:VAR,default},
// $VAR; `$$` is a literal `$`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace am::recipe {

// The value of a variable, or nothing where it is unset.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct Expansion {
  std::string text;
  bool used = false;                 // something of the environment, or a default, is in it
  std::optional<std::string> unset;  // the first variable that is unset and has no default
  std::string malformed;             // the first ${…} that names no variable, and
  std::string hint;                  // what to write instead
};

Expansion Expand(std::string_view text, const Environment& environment);

}  // namespace am::recipe
