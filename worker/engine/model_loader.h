// LoadedModel: the model of a RankSpec with its parameters placed and filled: from a Hugging Face
// directory, from a checkpoint of ours, or freshly initialised. The only place that decides the
// dtypes of a run.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/engine/model/causal_lm.h"
#include "worker/engine/parallel/parameter_store.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

struct RunDtypes {
  at::ScalarType compute = at::kFloat;  // of activations and of the weights that operators read
  at::ScalarType master = at::kFloat;   // of the trained weights that the optimizer updates
  at::ScalarType saved = at::kFloat;    // of exported weights
  std::vector<std::string> warnings;
};

// `stored` is config.json's dtype. Throws am::Error (kUser) for a dtype that is not known.
RunDtypes ChooseDtypes(const RankSpec& spec, const std::string& stored);

struct LoadedModel {
  nlohmann::json config_json;
  RunDtypes dtypes;
  std::vector<std::string> adapted;  // the modules with LoRA
  std::unique_ptr<CausalLm> model;
  std::unique_ptr<ParameterStore> store;
};

// `resume_dir`: a checkpoint of ours, empty for none. Throws am::Error (kUser) naming the tensors
// that are missing or shaped otherwise.
LoadedModel LoadModel(const RankSpec& spec, ShardGroups groups, const std::string& resume_dir);

}  // namespace am::engine
