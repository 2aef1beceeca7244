// Pages as files: plans of real models on real clusters, each compared with pages/NAME.txt, word
// for word. Memory and times are written down here, so that a better calibration changes no page.
// AMCTL_UPDATE_EXPECTED=1 writes the files anew; read the diff.
#include <sstream>

#include "launcher/plan/text_table.h"
#include "tests/launcher/plan/plans.h"

namespace am::plan {
namespace {

struct Page {
  const char* name;
  const char* model;  // null: one that is not known
  const char* sections;
  const char* cluster;
  int nodes;
  const char* explain = nullptr;
};

constexpr Page kPages[] = {
    {"dense_on_one_node", "meta-llama/Llama-3.1-8B",
     "step_scheduler: {global_batch_size: 64, max_steps: 1000}", "dgx-h100", 1},
    {"tensor_parallel_and_replicated", "meta-llama/Llama-3.1-70B",
     "step_scheduler: {global_batch_size: 64, max_steps: 50}\n"
     "distributed: {tp_size: 4, dp_replicate_size: 2}",
     "dgx-h100", 4},
    {"pipeline", "meta-llama/Llama-3.1-70B",
     "step_scheduler: {global_batch_size: 128, local_batch_size: 8}\n"
     "distributed: {pp_size: 4, pipeline: {pp_schedule: interleaved1f1b, layers_per_stage: 10}}",
     "dgx-h100", 8},
    {"experts_in_a_rack", "Qwen/Qwen3-30B-A3B",
     "step_scheduler: {global_batch_size: 256}\ndistributed: {ep_size: 32}", "gb200-nvl72", 16},
    {"experts_over_the_network", "deepseek-ai/DeepSeek-V3",
     "step_scheduler: {global_batch_size: 4096}\ndistributed: {ep_size: 64}", "dgx-h100", 128},
    {"sixteen_thousand", "deepseek-ai/DeepSeek-V3",
     "step_scheduler: {global_batch_size: 32768, local_batch_size: 8}\n"
     "distributed: {pp_size: 4, ep_size: 64, pipeline: {pp_schedule: 1f1b}}",
     "dgx-h100", 2048},
    {"adapters", "meta-llama/Llama-3.1-8B",
     "step_scheduler: {global_batch_size: 32}\npeft: {target_modules: '*_proj', dim: 16}",
     "dgx-h100", 1},
    {"long_sequences", "meta-llama/Llama-3.1-8B",
     "step_scheduler: {global_batch_size: 32}\ndistributed: {cp_size: 8}", "dgx-h200", 2},
    {"no_gpu", "HuggingFaceTB/SmolLM2-135M", "step_scheduler: {global_batch_size: 8}", "local", 1},
    {"model_not_known", nullptr, "step_scheduler: {global_batch_size: 64}", "dgx-h100", 2},
    {"explain_memory", "meta-llama/Llama-3.1-8B", "", "dgx-h100", 1, "memory"},
    {"explain_layout", "Qwen/Qwen3-30B-A3B", "distributed: {ep_size: 8}", "dgx-h100", 1, "layout"},
};

// What the estimates come to is of other tests.
void WriteDown(Estimates& e, double gpus) {
  if (!e.workload) return;
  e.workload->recompute = Recompute::kFull;
  std::erase_if(e.reasons, [](const std::string& reason) { return reason.starts_with("recomp"); });
  e.memory = MemoryEstimate{.worst = {.parameters = 12.5,
                                      .gradients = 20,
                                      .optimizer = 15.25,
                                      .activations = 9,
                                      .buffers = 1.5,
                                      .overhead = 0.75},
                            .limit = 79.1};
  if (!e.step_time) return;
  e.step_time = StepTimeEstimate{.seconds = 8,
                                 .tokens_per_s = 12345 * gpus,
                                 .terms = {{"dense products", 4, "work / rate"},
                                           {"attention", 2.5, "more work / rate"},
                                           {"sharding traffic", 1.5, "bytes / links"}}};
  e.tflops_per_gpu = 400;
  e.mfu = 400 / *e.peak_tflops;
  if (e.length.steps) {
    e.cost.days = static_cast<double>(*e.length.steps) * 8 / 86'400;
    e.cost.gpu_hours = *e.cost.days * 24 * gpus;
  }
}

TEST(Page, IsWordForWordWhatItsFileSays) {
  for (const Page& page : kPages) {
    recipe::Recipe recipe =
        testing::BenchmarkRecipe(page.model ? page.model : "somebody/else", page.sections);
    PlanOptions options{.nodes = page.nodes};
    if (page.model) options.model = testing::KnownModel(page.model);
    PlanResult result = MakePlan(recipe, testing::ClusterOf(page.cluster), options);
    ASSERT_TRUE(result.plan) << page.name << recipe::RenderText(result.diagnostics);
    Plan& plan = *result.plan;
    std::string text;
    if (page.explain && std::string_view(page.explain) == "memory") {
      // Its terms are another room's: that there are some, and that they add up, is enough.
      text = Explain(plan, "memory");
      EXPECT_NE(text.find("GiB  in all"), std::string::npos) << text;
    } else {
      WriteDown(plan.estimates, plan.dims.world());
      std::erase_if(plan.reasons,
                    [](const std::string& reason) { return reason.starts_with("recomp"); });
      recipe::Diagnostics warnings;
      recipe.Report(warnings, recipe::Severity::kWarning, "model", "a warning", "a cure");
      text = page.explain ? Explain(plan, page.explain) : ToText(plan, warnings);
      std::filesystem::path file = testing::SourceDirectory() / "tests/launcher/plan/pages" /
                                   (std::string(page.name) + ".txt");
      if (std::getenv("AMCTL_UPDATE_EXPECTED")) std::ofstream(file, std::ios::binary) << text;
      EXPECT_EQ(text, testing::ReadFile(file)) << page.name;
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(DisplayWidth(line), kPageWidth) << page.name << ": " << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos) << "no colour";
    }
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 100) << page.name;
  }
}

TEST(Page, SetsWideCharactersByTheirNumber) {
  TextTable table({"<name", "n"});
  table.Row({"Größe", "1"});
  table.Row({"a", "23"});
  EXPECT_EQ(table.Text(), "  name    n\n  Größe   1\n  a      23\n");
  EXPECT_EQ(Wrapped("short", "- "), "- short\n");
  EXPECT_EQ(ThreeDigits(0.01234), "0.0123");
  EXPECT_EQ(ThreeDigits(9.999), "10.0");
  EXPECT_EQ(ThreeDigits(12345.6), "12,346");
  EXPECT_EQ(Scaled(8.03e9), "8.03 B");
  EXPECT_EQ(Duration(0.0123), "12.3 ms");
  EXPECT_EQ(Grouped(-1234), "-1,234");
}

}  // namespace
}  // namespace am::plan
