// What beside the training is measured, warmed up or mended, and what other launchers read.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Support;

constexpr Key kNeftuneKeys[] = {
    NumberKey("noise_alpha", "5.0", "noise on embeddings: alpha / sqrt(tokens · features)"),
};

constexpr Key kQatConfigKeys[] = {
    TargetKey("QATConfig"),
    ChoiceKey("quantizer_type", "int8_dynact_int4weight", "int8_dynact_int4weight int4_weight_only",
              "what is quantised: activations and weights, or weights alone"),
    CountKey("groupsize", "256", "values", "that share a scale"),
};
constexpr Part kQatConfigs[] = {
    {.targets = "nemo_automodel.components.quantization.qat.QATConfig", .name = "qat"}};
constexpr Section kQatConfigSection = {
    .keys = kQatConfigKeys, .parts = kQatConfigs, .default_part = "qat"};
constexpr Key kQatKeys[] = {
    BoolKey("enabled", "false", "train as if the weights had fewer bits"),
    SizeKey("fake_quant_after_n_steps", "", "steps", "before that begins; null: from the first"),
    PartKey("qat_config", kQatConfigSection, "how"),
    PartKey("quantizer", kQatConfigSection, "as qat_config"),
};

constexpr Key kMoeMetricsKeys[] = {
    BoolKey("enabled", "false", "log how experts are used"),
    ChoiceKey("mode", "brief", "brief detailed", "sums, or each layer and expert"),
    CountKey("detailed_every_steps", "", "steps", "each layer and expert every so many"),
    SizeKey("top_k_experts", "0", "experts", "the most and least used that are named; 0: all"),
};

constexpr Key kToolCallEvalKeys[] = {
    TargetKey("ToolCallAccuracyEvaluator"),
    TextKey("dataset_name", "hub id, directory or file"),
    TextKey("split", "split that is read", "train"),
    CountKey("max_eval_samples", "", "samples", "only the first so many"),
    CountKey("max_prompt_tokens", "", "tokens", "of a prompt, at most"),
    CountKey("max_new_tokens", "256", "tokens", "of an answer, at most"),
    BoolKey("run_on_fsdp2", "false", "on sharded weights"),
};
constexpr Part kToolCallEvals[] = {
    {.targets = "nemo_automodel.components.eval.tool_call_evaluator.ToolCallAccuracyEvaluator",
     .name = "tool_calls"}};

constexpr Key kMfuKeys[] = {
    TextKey("device", "name of the GPU; null: as found"),
    WithUnit("TFLOP/s", NumberKey("peak_tflops", "", "peak of one GPU; null: the cluster's")),
};

constexpr Key kPrewarmKeys[] = {
    BoolKey("cublas_backward", "false", "matrix products of backward"),
    BoolKey("fla_gdn_autotune", "false", "kernels of gated delta layers"),
    BoolKey("mamba_ssd_autotune", "false", "kernels of state-space layers"),
    BoolKey("comm_groups", "false", "connections between ranks"),
};

constexpr Key kRowRepairKeys[] = {
    BoolKey("enabled", "true", "mend embeddings that were never trained"),
    NumberKey("min_norm", "1e-6", "rows shorter than this are mended"),
    CountKey("max_rows", "", "rows", "mended at most; null: all"),
};

// ---- other launchers

constexpr Key kSkypilotKeys[] = {
    TextKey("cloud", "kubernetes, aws, gcp, …"),
    TextKey("accelerators", "GPUs of a node: H100:8"),
    CountKey("num_nodes", "1", "nodes", "machines"),
    TextKey("region", "where"),
    TextKey("zone", "where, more exactly"),
    TextKey("instance_type", "machine"),
    TextKey("cpus", "cores of a machine: 8, or 8+"),
    TextKey("memory", "memory of a machine: 32, or 32+"),
    CountKey("disk_size", "", "GB", "of a machine"),
    BoolKey("use_spot", "true", "machines that may be taken away"),
    TextKey("job_name", "name of the job"),
    TextKey("setup", "shell lines that run first"),
    TextKey("hf_token", "token of the hub"),
    TextKey("wandb_key", "key of the tracker"),
    TextKey("output_dir", "where results are copied"),
    TextKey("image_id", "image of the machines"),
};

}  // namespace

const Section kNeftuneSection = {.keys = kNeftuneKeys, .alone = "noise_alpha"};
const Section kQatSection = {.keys = kQatKeys, .enabled_by = "enabled"};
const Section kMoeMetricsSection = {.keys = kMoeMetricsKeys, .enabled_by = "enabled"};
const Section kToolCallEvalSection = {
    .keys = kToolCallEvalKeys, .parts = kToolCallEvals, .default_part = "tool_calls"};
const Section kMfuSection = {.keys = kMfuKeys};
const Section kPrewarmSection = {.keys = kPrewarmKeys};
const Section kRowRepairSection = {.keys = kRowRepairKeys, .enabled_by = "enabled"};
const Section kSkypilotSection = {.keys = kSkypilotKeys};

}  // namespace am::recipe
