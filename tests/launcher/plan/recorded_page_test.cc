// docs/recorded_runs.md, printed from the recorded runs; AMCTL_UPDATE_EXPECTED=1 writes it anew.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/launcher/golden_cases.h"
#include "tests/launcher/plan/recorded_runs.h"

namespace am::plan {
namespace {

std::string Cell(const std::optional<double>& value, const char* format) {
  if (!value) return "";
  char text[32];
  std::snprintf(text, sizeof text, format, *value);
  return text;
}

std::string Recorded(const RecordedRun& run, const char* column, const char* format) {
  std::string text = run.Cell(column);
  return run.Figure(column) ? Cell(run.Figure(column), format) : text;
}

const char* FormatOfSeconds(double seconds) { return seconds < 100 ? "%.2f" : "%.1f"; }

std::string PredictedSeconds(const Estimates& e) {
  if (!e.step_time) return "";
  double seconds = e.step_time->seconds;
  std::string text = Cell(seconds, FormatOfSeconds(seconds));
  if (!e.workload || !e.workload->real_data) return text;
  double high = e.step_time->high_seconds;
  return absl::StrCat(Cell(e.step_time->low_seconds, FormatOfSeconds(high)), " to ",
                      Cell(high, FormatOfSeconds(high)));
}

std::string RunText(const RecordedRun& run) {
  return absl::StrCat(run.Cell("task"), ", ", run.Cell("workload"), ", ", run.Cell("precision"),
                      ", ", run.gpus(), " ", run.Cell("gpu"));
}

std::string LayoutText(const Plan& plan) {
  const ParallelDims& d = plan.dims;
  std::string text = absl::StrCat("dp ", d.dp());
  auto add = [&](const char* axis, int size) {
    if (size > 1) absl::StrAppend(&text, " · ", axis, " ", size);
  };
  add("tp", d.tp);
  add("cp", d.cp);
  add("pp", d.pp);
  if (plan.virtual_stages.value_or(1) > 1)
    absl::StrAppend(&text, " (vp ", *plan.virtual_stages, ")");
  if (d.ep > 1) absl::StrAppend(&text, ", ep ", d.ep);
  return absl::StrCat(text, "; ", plan.batch.global_batch_size, " = ", d.dp(), " · ",
                      plan.batch.local_batch_size, " · ", plan.batch.grad_acc_steps);
}

constexpr char kPageBegin[] = R"(# Recorded runs

Rows of the Performance Summary of NeMo AutoModel 0.7.0, each as a recipe of `configs/recorded`, and
what `amctl plan` says of them. Printed by `recorded_test` (`AMCTL_UPDATE_EXPECTED=1` writes it anew);
the same test holds every layout to its row, and the model TFLOP/s from the recorded step time to
within 0.5 % of what was printed.

    amctl plan configs/recorded/24-qwen3_moe_30b.yaml --cluster dgx-h100 --nodes 1 --explain time

)";

constexpr char kPredictions[] = R"(
## Time, throughput and memory

Recorded, then predicted. Step times in seconds, tokens a second of all GPUs, model TFLOP/s a GPU,
memory in GiB of the fullest GPU and what a GPU offers. An empty cell was not recorded, or cannot be
said: samples whose length nothing fixes have no tokens a step. `kept back`: not given to the
project. What a step time is made of, and how far it errs: `predictor.md`; the memory: `memory.md`.
No row records its memory; that every run fitted its GPUs is a weak check, and where the estimate is
above the limit, it is an upper bound that the run stayed below.

Real data (MedPix, HellaSwag, packed Tulu-3, cached pictures): the times are ranges, from about what
the step takes with samples of full length to several times that. Such runs are slower by the
padding of short samples, by loading and decoding pictures, by experts that are not loaded evenly
and by kernels that are not fused. Their recorded tokens leave padding out; the predicted ones are
of full samples. A picture (rows 35 and 36, taken as 1024 · 1024 pixels) is 4096 tokens and 512 of
its text, the most that pipelines take.

| row | model | step | tokens/s | TFLOP/s | step | error | tokens/s | TFLOP/s | memory | limit |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
)";

constexpr char kFlops[] = R"(
## Model FLOPs

One formula a family (`flops.h`), as it stands today, unless the recipe says `x-flops-convention:
recorded` or the command `--flops-convention recorded`. Four kinds of rows were printed with older
ones:

- GPT-OSS on H100 took hidden size / heads = 45 for the width of a head, which is 64. The row on
  GB200 is younger and counts 64.
- Nemotron 3 Nano and Super counted 6 FLOPs for a number of the scan's state, today 21. The row of
  Ultra is younger, and counts its two depths of multi-token prediction.
- Moonlight counted one shared expert of two, and its dense first layer as one with experts. The
  same formula gave the rows of DeepSeek V3 and Kimi K2, where it makes no difference.
- Qwen3.8-Flash-Next (row 28) is not reproduced: its formula gives 1.3 % more than was printed.

A LoRA row counts (2 + adapter / frozen parameters) / 3 of full training. MiMo, Kimi Linear, Laguna,
GLM-5.3-Flash, HunyuanImage and Qwen-Image have no published formula: their convention is `own`, all
products and attention pairs counted alike. The last column is the model TFLOP/s a GPU at the
recorded step time.

| row | model | GFLOP a token | convention | printed | at the recorded time | difference |
|---|---|--:|---|--:|--:|--:|
)";

std::string Page() {
  std::string page = kPageBegin;
  page +=
      "## Layouts\n\n| row | model | run | layout; samples a step = dp · local · accumulation |\n"
      "|---|---|---|---|\n";
  for (const RecordedRun& run : Runs()) {
    if (!run.plan) continue;
    absl::StrAppend(&page, "| ", run.number, " | ", run.Cell("model"), " | ", RunText(run), " | ",
                    LayoutText(*run.plan), " |\n");
  }
  page += kPredictions;
  std::vector<double> errors;
  for (const RecordedRun& run : Runs()) {
    if (!run.plan) continue;
    const Estimates& e = run.plan->estimates;
    bool real = e.workload && e.workload->real_data;
    std::optional<double> tokens, memory, limit, error;
    std::optional<double> seconds = run.Figure("step_time_s");
    if (e.step_time) {
      tokens = e.step_time->tokens_per_s;
      if (seconds && !real) error = (e.step_time->seconds / *seconds - 1) * 100;
    }
    if (error) errors.push_back(std::abs(*error));
    if (e.memory && e.workload->seq_length > 0) {
      memory = e.memory->worst.total();
      limit = e.memory->limit;
    }
    absl::StrAppend(&page, "| ", run.number, " | ", run.Cell("model"), " | ",
                    Recorded(run, "step_time_s", FormatOfSeconds(seconds.value_or(0))), " | ",
                    Recorded(run, "tokens_per_s", "%.0f"), " | ",
                    Recorded(run, "model_tflops_per_gpu", "%.0f"));
    absl::StrAppend(&page, " | ", PredictedSeconds(e), " | ", Cell(error, "%+.1f %%"), " | ",
                    Cell(tokens, "%.0f"), " | ", Cell(e.tflops_per_gpu, "%.0f"), " | ",
                    Cell(memory, "%.1f"), " | ", Cell(limit, "%.1f"), " |\n");
  }
  std::sort(errors.begin(), errors.end());
  if (!errors.empty()) {
    absl::StrAppendFormat(
        &page,
        "\n%d rows with made-up samples have a time: the median error is %.1f %%, "
        "the largest %.1f %%.\n",
        errors.size(), errors[errors.size() / 2], errors.back());
  }
  page += kFlops;
  for (const RecordedRun& run : Runs()) {
    if (!run.plan || !run.plan->estimates.model_flops_per_step) continue;
    const Estimates& e = run.plan->estimates;
    std::optional<double> giga = *e.model_flops_per_step / 1e9 /
                                 static_cast<double>(run.plan->tokens_per_step().value_or(1));
    std::optional<double> at, difference, printed = run.Figure("model_tflops_per_gpu");
    if (run.Figure("step_time_s")) at = TflopsPerGpu(run, *run.plan);
    if (at && printed) difference = (*at / *printed - 1) * 100;
    absl::StrAppend(&page, "| ", run.number, " | ", run.Cell("model"), " | ", Cell(giga, "%.2f"),
                    " | ", e.flops_convention, " | ", run.Cell("model_tflops_per_gpu"), " | ",
                    Cell(at, "%.2f"), " | ", Cell(difference, "%+.2f %%"), " |\n");
  }
  return page;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Equal, or figures of which the page's is not far behind: numbers to a tenth, percentages to five.
bool Agree(const std::string& printed, const std::string& now) {
  if (printed == now) return true;
  auto is_figure = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of("+-.0123456789") == std::string::npos;
  };
  if (!is_figure(printed) || !is_figure(now)) return false;
  double was = std::stod(printed), is = std::stod(now);
  bool percent = now.front() == '+' || now.front() == '-';
  return std::abs(was - is) <= (percent ? 5 : 0.1 * std::abs(is) + 0.02);
}

// A change of the predictor that moves them further asks for a new page.
TEST_F(RecordedRuns, PageIsPrintedFromThem) {
  std::filesystem::path path = testing::SourceDirectory() / "docs/recorded_runs.md";
  std::string page = Page();
  if (std::getenv("AMCTL_UPDATE_EXPECTED")) std::ofstream(path, std::ios::binary) << page;
  std::vector<std::string> now = LinesOf(page), printed = LinesOf(testing::ReadFile(path));
  ASSERT_EQ(printed.size(), now.size()) << "AMCTL_UPDATE_EXPECTED=1 writes it anew";
  for (size_t i = 0; i < now.size(); ++i) {
    std::vector<std::string> words = testing::Words(now[i]);
    std::vector<std::string> printed_words = testing::Words(printed[i]);
    bool agree = words.size() == printed_words.size() &&
                 std::equal(words.begin(), words.end(), printed_words.begin(),
                            [](auto& a, auto& b) { return Agree(b, a); });
    EXPECT_TRUE(agree) << "docs/recorded_runs.md:" << i + 1 << ": " << printed[i] << "\nnow "
                       << now[i] << "\nAMCTL_UPDATE_EXPECTED=1 writes it anew";
  }
}

}  // namespace
}  // namespace am::plan
