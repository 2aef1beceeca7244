// What is known of models without their files: the facts of configs/models, compiled in, and where
// a recipe's model configuration comes from.
//
// A fact file has what shapes a model, under the keys of its config.json; an alias is a model of
// equal shape. Safe for any thread; nothing is parsed before it is asked for.
//   auto found = FindModelConfig("meta-llama/Llama-3.1-8B", overrides, getenv);
//   found->config.num_hidden_layers == 32; found->source == "the known facts of …";
#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/model/config.h"

namespace am::model {

// The configuration of a hub id, or nullptr where it is not known. Lives as long as the program.
const nlohmann::json* KnownConfig(std::string_view hub_id);

// Hub ids with facts of their own, sorted; and those of equal shape with the id they are equal to.
std::vector<std::string> KnownModels();
struct Alias {
  std::string_view name;
  std::string_view of;
  std::string_view patch = "{}";  // laid over: null where it differs and is not known
};
const std::vector<Alias>& KnownAliases();

struct FoundConfig {
  ModelConfig config;
  std::string source;       // "/dir/config.json", "the known facts of org/name"
  bool from_facts = false;  // of configs/models: no weights, no tokenizer here
};

// A local directory, else the Hugging Face cache, else the known facts; `overrides` of the recipe
// laid over (a map text_config over that part, other keys over the text part of a multimodal model
// where it has them). NotFound says what a plan cannot know without it.
absl::StatusOr<FoundConfig> FindModelConfig(const std::string& name,
                                            const nlohmann::json& overrides,
                                            const Environment& environment);

}  // namespace am::model
