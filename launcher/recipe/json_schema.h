// The schema as JSON Schema (draft 2020-12), for editors: what each key may be, its default, its
// meaning, the keys that a `_target_` brings. It accepts what the loader accepts as far as JSON
// Schema can say it; rules between keys are the loader's and the plan's.
//   # yaml-language-server: $schema=amctl.schema.json
#pragma once

#include <nlohmann/json.hpp>

namespace am::recipe {

nlohmann::ordered_json JsonSchema();

}  // namespace am::recipe
