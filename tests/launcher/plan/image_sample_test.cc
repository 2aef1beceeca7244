#include "launcher/plan/image_sample.h"

#include "launcher/plan/find_model.h"
#include "launcher/plan/make_workload.h"
#include "tests/launcher/plan/plans.h"

namespace am::plan {
namespace {

constexpr char kPictures[] =
    "nemo_automodel.components.datasets.diffusion.build_text_to_image_multiresolution_dataloader";
constexpr char kVideos[] =
    "nemo_automodel.components.datasets.diffusion.build_video_multiresolution_dataloader";

recipe::Recipe ImageRecipe(const std::string& model, const std::string& resolution,
                           const std::string& sections = "", const char* loader = kPictures) {
  recipe::LoadResult loaded =
      recipe::LoadRecipe({.path = "r.yaml",
                          .text = "recipe: TrainDiffusionRecipe\n"
                                  "step_scheduler: {global_batch_size: 16, local_batch_size: 2}\n"
                                  "model: {pretrained_model_name_or_path: " +
                                  model + ", torch_dtype: bfloat16, attention_backend: flash}\n" +
                                  "data: {dataloader: {_target_: " + loader +
                                  ", cache_dir: latents" + resolution + "}}\n" + sections});
  EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
  return loaded.recipe.value_or(recipe::Recipe());
}

TEST(ImageSample, IsTheTokensOfAPictureAndOfTheLongestText) {
  struct Case {
    const char* resolution;
    const char* loader;
    std::optional<int64_t> length;
  };
  const Case kCases[] = {
      {", base_resolution: [1024, 1024]", kPictures, 4096 + 512},
      {", base_resolution: [512, 512]", kPictures, 1024 + 512},
      {", base_resolution: [512, 1024]", kPictures, 2048 + 512},
      {"", kPictures, std::nullopt},
      {", base_resolution: [1024]", kPictures, std::nullopt},
      {", base_resolution: [512, 512]", kVideos, std::nullopt},
  };
  for (const Case& c : kCases) {
    for (const char* model : {"Qwen/Qwen-Image-2.1", "tencent/HunyuanImage-3.0"}) {
      std::string reason;
      recipe::Recipe recipe = ImageRecipe(model, c.resolution, "", c.loader);
      EXPECT_EQ(ImageSequenceLength(recipe, testing::KnownModel(model).json, reason), c.length)
          << model << c.resolution;
      EXPECT_EQ(reason.empty(), !c.length) << reason;
    }
  }
  std::string reason;
  recipe::Recipe recipe = ImageRecipe("m", ", base_resolution: [512, 512]");
  EXPECT_FALSE(ImageSequenceLength(recipe, {{"hidden_size", 64}}, reason)) << "no count of tokens";
}

TEST(ImageSample, GivesAPlanOfAnImageModelItsEstimatesAndSaysWhatWasAssumed) {
  std::string model = "Qwen/Qwen-Image-2.1";
  PlanResult planned =
      MakePlan(ImageRecipe(model, ", base_resolution: [1024, 1024]"),
               testing::ClusterOf("dgx-h100"), {.nodes = 1, .model = testing::KnownModel(model)});
  ASSERT_TRUE(planned.plan) << recipe::RenderText(planned.diagnostics);
  EXPECT_EQ(planned.plan->seq_length, 4608);
  EXPECT_EQ(planned.plan->tokens_per_step(), 16 * 4608);
  const Estimates& e = planned.plan->estimates;
  ASSERT_TRUE(e.step_time && e.memory && e.model_flops_per_step);
  EXPECT_EQ(e.flops_convention, "own");
  EXPECT_TRUE(e.workload->real_data) << "a range";
  // Six for each weight of the blocks and for each pair of tokens, keys and values.
  double blocks = 32 * (4. * 4096 * 4096 + 3. * 4096 * 12288), pairs = 32. * 2 * 4096 * 4608;
  EXPECT_NEAR(*e.model_flops_per_step / (6 * (blocks + pairs) * 16 * 4608), 1, 0.01);
  bool said = false;
  for (const std::string& reason : planned.plan->reasons) {
    said = said || reason.find("sequence length 4608 = 4096 tokens of a picture") == 0;
  }
  EXPECT_TRUE(said);
}

TEST(ImageSample, IsOfTheModelThatTheRecipeNamesWhateverItCallsItsType) {
  std::string name = "Qwen/Qwen-Image-2.1, model_type: qwen_image";
  auto found = FindModelOf(ImageRecipe(name, ""), [](const std::string&) { return std::nullopt; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->config.json["model_type"], "qwen_image21");
}

TEST(ImageSample, IsDenoisedWithoutLogitsAndWithAttentionToAllTokens) {
  auto shape = model::ShapeOf(testing::KnownModel("tencent/HunyuanImage-3.0").json);
  ASSERT_TRUE(shape.ok()) << shape.status();
  auto whole = std::make_shared<const model::ModelShape>(*shape);
  auto denoiser = DenoiserOf(*whole);
  EXPECT_GT(whole->vocab_size, 0);
  EXPECT_EQ(denoiser->vocab_size, 0);
  EXPECT_EQ(model::Parameters(*denoiser), model::Parameters(*whole)) << "what is held stays";
  ASSERT_TRUE(denoiser->layer(0).attention);
  EXPECT_TRUE(whole->layer(0).attention->causal);
  EXPECT_FALSE(denoiser->layer(0).attention->causal);
}

TEST(ImageSample, IsTrainedOnAsTheSectionFsdpSays) {
  auto workload_of = [](const std::string& sections) {
    auto shape = model::ShapeOf(testing::KnownModel("Qwen/Qwen-Image-2.1").json);
    EXPECT_TRUE(shape.ok()) << shape.status();
    return TrainingOf(ImageRecipe("m", "", sections),
                      std::make_shared<const model::ModelShape>(*shape), {.gpus = 8})
        .workload;
  };
  Workload silent = workload_of("");
  EXPECT_TRUE(silent.recompute_assumed);
  EXPECT_FALSE(silent.kernels.prefetch);
  EXPECT_EQ(silent.bytes.gradient, 4);
  EXPECT_EQ(silent.kernels.attention, AttentionKernel::kFlash);
  Workload given = workload_of(
      "fsdp: {activation_checkpointing: true, enable_fsdp2_prefetch: true, reduce_dtype: bf16}");
  EXPECT_FALSE(given.recompute_assumed);
  EXPECT_EQ(given.recompute, Recompute::kFull);
  EXPECT_TRUE(given.kernels.prefetch);
  EXPECT_EQ(given.bytes.gradient, 2);
  EXPECT_EQ(workload_of("fsdp: {activation_checkpointing: false}").recompute, Recompute::kNone);
}

}  // namespace
}  // namespace am::plan
