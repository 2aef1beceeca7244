// A small recipe for tests of the plan, with sections of one's own at the end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "launcher/recipe/load.h"

namespace am::testing {

inline recipe::Recipe SmallRecipe(const std::string& sections) {
  recipe::LoadResult result =
      recipe::LoadRecipe({.path = "r.yaml",
                          .text = "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
                                  "model: {pretrained_model_name_or_path: m}\n"
                                  "dataset: {_target_: make_squad_dataset, dataset_name: d}\n" +
                                  sections});
  EXPECT_TRUE(result.recipe) << recipe::RenderText(result.diagnostics);
  return result.recipe ? *result.recipe : recipe::Recipe();
}

}  // namespace am::testing
