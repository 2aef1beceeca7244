// Where a job runs, how it is kept alive, and who is told.
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

constexpr Key kRestartKeys[] = {
    {.name = "max_restarts",
     .type = kInt,
     .fallback = "3",
     .least = 0,
     .means = "restarts from the last checkpoint before the job fails"},
    {.name = "no_progress_limit",
     .type = kInt,
     .fallback = "3",
     .least = 1,
     .unit = "attempts",
     .means = "attempts in a row without a new step after which the job fails"},
    {.name = "grace_s",
     .type = kFloat,
     .fallback = "60",
     .least = 0,
     .unit = "seconds",
     .means = "for ranks to save and leave before they are killed"},
};
constexpr Key kElasticKeys[] = {
    {.name = "min_nodes",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "nodes",
     .means = "go on with no fewer",
     .support = kNotTrainable},
    {.name = "max_nodes",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "nodes",
     .means = "grow to no more",
     .support = kNotTrainable},
    {.name = "replan",
     .type = kChoice,
     .fallback = "dp",
     .choices = "dp full",
     .means = "what may change with the nodes: dp alone, or the whole layout",
     .support = kNotTrainable,
     .neutral = "dp"},
};
constexpr Key kSlurmKeys[] = {
    {.name = "partition", .nullable = true, .means = "sbatch --partition"},
    {.name = "account", .nullable = true, .means = "sbatch --account"},
    {.name = "qos", .nullable = true, .means = "sbatch --qos"},
    {.name = "time", .nullable = true, .means = "wall-clock limit, as sbatch takes it: 04:00:00"},
    {.name = "job_name", .nullable = true, .means = "sbatch --job-name"},
    {.name = "nodes",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "nodes",
     .means = "sbatch --nodes"},
    {.name = "gpus_per_node",
     .type = kInt,
     .nullable = true,
     .least = 0,
     .means = "sbatch --gpus-per-node"},
    {.name = "container_image", .nullable = true, .means = "srun --container-image"},
    {.name = "container_mounts",
     .type = kTexts,
     .nullable = true,
     .means = "srun --container-mounts"},
    {.name = "extra_args", .type = kTexts, .nullable = true, .means = "further #SBATCH lines"},
    {.name = "env_vars", .type = kFree, .nullable = true, .means = "environment of the job"},
    {.name = "setup", .nullable = true, .means = "shell lines to run first, on each node"},
};
constexpr Key kKubernetesKeys[] = {
    {.name = "namespace", .nullable = true, .means = "where the pods are made"},
    {.name = "image", .nullable = true, .means = "of the pods"},
    {.name = "service_account", .nullable = true, .means = "of the pods"},
    {.name = "node_selector", .type = kFree, .nullable = true, .means = "labels of the nodes"},
    {.name = "volumes", .type = kFree, .nullable = true, .means = "mounted in each pod"},
    {.name = "env_vars", .type = kFree, .nullable = true, .means = "environment of the job"},
};

// ---- trackers

constexpr Key kWandbKeys[] = {
    {.name = "enable", .type = kBool, .fallback = "true", .means = "false: as if not there"},
    {.name = "project", .nullable = true, .means = "name of the project"},
};
constexpr Key kMlflowKeys[] = {
    {.name = "experiment_name", .nullable = true, .means = "name of the experiment"},
    {.name = "run_name", .nullable = true, .means = "name of the run"},
    {.name = "tracking_uri", .nullable = true, .means = "the server"},
    {.name = "artifact_location", .nullable = true, .means = "where artifacts go"},
    {.name = "tags", .type = kFree, .nullable = true, .means = "of the run"},
    {.name = "resume", .type = kBool, .fallback = "true", .means = "go on with the same run"},
    {.name = "description", .nullable = true, .means = "of the run"},
    {.name = "flatten_depth", .type = kInt, .fallback = "1", .means = "of parameter names"},
};
constexpr Key kCometKeys[] = {
    {.name = "project_name", .nullable = true, .means = "name of the project"},
    {.name = "workspace", .nullable = true, .means = "of the project"},
    {.name = "api_key", .nullable = true, .means = "the credential"},
    {.name = "experiment_name", .nullable = true, .means = "name of the run"},
    {.name = "tags", .type = kTexts, .nullable = true, .means = "of the run"},
    {.name = "auto_metric_logging", .type = kBool, .fallback = "false", .means = "of Comet"},
};

// ---- benchmark, compile, fp8

constexpr Key kBenchmarkKeys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "warmup_steps",
     .type = kInt,
     .fallback = "10",
     .least = 0,
     .unit = "steps",
     .means = "not timed"},
    {.name = "peak_tflops",
     .type = kFloat,
     .nullable = true,
     .least = kPositive,
     .unit = "TFLOP/s",
     .means = "peak of one GPU"},
    {.name = "num_nodes",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "nodes",
     .means = "informational"},
    {.name = "nsys_start", .type = kInt, .fallback = "-1", .support = kNoEffect},
    {.name = "nsys_end", .type = kInt, .fallback = "-1", .support = kNoEffect},
    {.name = "nsys_ranks", .type = kInts, .nullable = true, .support = kNoEffect},
    {.name = "json_output_path", .nullable = true, .means = "where the result goes"},
};
constexpr Key kCompileKeys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "enabled", .type = kBool, .fallback = "false", .means = "compile the model's Python"},
    {.name = "mode", .nullable = true, .fallback = "default", .support = kNoEffect},
    {.name = "fullgraph", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "dynamic", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "backend", .nullable = true, .support = kNoEffect},
    {.name = "options", .type = kFree, .nullable = true, .support = kNoEffect},
    {.name = "dynamo_cache_size_limit", .type = kInt, .nullable = true, .support = kNoEffect},
};
constexpr Key kFp8Keys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "enabled", .type = kBool, .fallback = "false", .means = "FP8 in linear layers"},
    {.name = "recipe_name",
     .type = kChoice,
     .nullable = true,
     .choices = "tensorwise rowwise rowwise_with_gw_hp",
     .means = "how scales are chosen"},
    {.name = "enable_fsdp_float8_all_gather", .type = kBool, .means = "gather weights in FP8"},
    {.name = "precompute_float8_dynamic_scale_for_fsdp", .type = kBool, .support = kNoEffect},
    {.name = "force_recompute_fp8_weight_in_bwd", .type = kBool, .support = kNoEffect},
    {.name = "filter_fqns",
     .type = kTexts,
     .nullable = true,
     .means = "modules that stay as they are"},
    {.name = "emulate", .type = kBool, .fallback = "false", .means = "without FP8 hardware"},
};

}  // namespace

const Section kRestartSection = {.keys = kRestartKeys};
const Section kElasticSection = {.keys = kElasticKeys};
const Section kSlurmSection = {.keys = kSlurmKeys};
const Section kKubernetesSection = {.keys = kKubernetesKeys};
const Section kWandbSection = {.keys = kWandbKeys, .open = true, .enabled_by = "enable"};
const Section kMlflowSection = {.keys = kMlflowKeys};
const Section kCometSection = {.keys = kCometKeys};
const Section kBenchmarkSection = {.keys = kBenchmarkKeys};
const Section kCompileSection = {.keys = kCompileKeys, .enabled_by = "enabled"};
const Section kFp8Section = {.keys = kFp8Keys, .enabled_by = "enabled"};

}  // namespace am::recipe
