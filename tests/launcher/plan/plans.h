// Real models from the known facts, real clusters, small recipes: for tests of whole plans.
#pragma once

#include "launcher/model/known.h"
#include "launcher/plan/plan.h"
#include "tests/launcher/golden_cases.h"

namespace am::testing {

inline model::ModelConfig KnownModel(const std::string& name) {
  auto found = model::FindModelConfig(name, nlohmann::json::object(),
                                      [](const std::string&) { return std::nullopt; });
  EXPECT_TRUE(found.ok()) << found.status();
  return found.ok() ? found->config : model::ModelConfig();
}

inline plan::Cluster ClusterOf(const std::string& name) {
  auto cluster =
      plan::FindCluster(name, [] { return plan::Machine{.cores = 8, .memory_gib = 64}; });
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return cluster.ok() ? *cluster : plan::Cluster();
}

// A benchmark of `model` on made-up samples of 4096 tokens, with sections of one's own.
inline recipe::Recipe BenchmarkRecipe(const std::string& model, const std::string& sections,
                                      int64_t seq = 4096) {
  recipe::LoadResult loaded = recipe::LoadRecipe(
      {.path = "r.yaml",
       .text = "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
               "model: {pretrained_model_name_or_path: " +
               model +
               "}\n"
               "dataset: {_target_: MockIterableDataset, num_samples: 100000, seq_len: " +
               std::to_string(seq) + "}\n" + sections});
  EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
  return loaded.recipe.value_or(recipe::Recipe());
}

}  // namespace am::testing
