// Where a job runs, how it is kept alive, and who is told.
#include "launcher/recipe/schema_keys.h"
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
constexpr Key kEnvironmentKeys[] = {TextKey("*", "the variable of that name")};
constexpr Section kEnvironmentSection = {.keys = kEnvironmentKeys};

constexpr Key kSlurmKeys[] = {
    // Who pays, and where.
    TextKey("account", "account that is charged (--account)"),
    TextKey("partition", "partition, or several with commas between them (--partition)"),
    TextKey("qos", "quality of service (--qos)"),
    TextKey("reservation", "reservation that the nodes are taken from (--reservation)"),
    TextKey("job_name", "name in the queue; null: the recipe's file (--job-name)"),
    TextKey("comment", "text that accounting keeps (--comment)"),
    // What is asked for.
    WithUnit("", NewKey(Type::kSlurmTime, "time", "",
                        "wall-clock limit; null: the partition's (--time)")),
    WithUnit("", NewKey(Type::kSlurmTime, "time_min", "",
                        "shortest limit that will do, to start sooner (--time-min)")),
    CountKey("nodes", "", "nodes",
             "that are asked for; null: as many as the layout takes (--nodes)"),
    SizeKey("gpus_per_node", "", "GPUs",
            "that are asked for of a node; null: the cluster's (--gpus-per-node)"),
    CountKey("cpus_per_task", "", "cores", "of each node's agent; null: all (--cpus-per-task)"),
    TextKey("mem", "memory of a node: 0 is all of it, else as 512G (--mem)", "0"),
    TextKey("constraint", "features that nodes must have (--constraint)"),
    TextKey("nodelist", "nodes that must be among them (--nodelist)"),
    TextKey("exclude", "nodes that must not (--exclude)"),
    BoolKey("exclusive", "true", "nodes are shared with nobody (--exclusive)"),
    CountKey("segment", "", "nodes",
             "that must lie in one block; null: as the plan asks for (--segment)"),
    TextKey("switches", "most leaf switches, and how long to wait for them: 1@12:00 (--switches)"),
    TextKey("gres", "further resources (--gres)"),
    TextKey("dependency", "jobs to wait for: afterok:123 (--dependency)"),
    TextKey("begin", "not before: now+1hour (--begin)"),
    IntKey("nice", "", "lowers the priority by so much (--nice)"),
    TextKey("array", "job array: 0-15%4 (--array)"),
    // How it ends and begins again.
    BoolKey("requeue", "true", "queue again after preemption and lost nodes (--requeue)"),
    SizeKey("signal_lead_s", "120", "seconds", "before the limit: save and leave (--signal)"),
    // What it runs in.
    TextKey("container_image", "image for pyxis and enroot, or apptainer (--container-image)"),
    TextsKey("container_mounts", "FROM:TO[:FLAGS] (--container-mounts)"),
    ChoiceKey("container_runtime", "", "pyxis apptainer none",
              "what runs the image; null: pyxis where one is named"),
    TextKey("container_workdir", "directory to begin in (--container-workdir)"),
    SectionKey("env", kEnvironmentSection, "environment of the job, passed without a shell"),
    TextKey("setup", "shell lines that run first, on each node"),
    TextKey("output", "file of the batch script's own output (--output)"),
    TextKey("mail_user", "who is told (--mail-user)"),
    TextsKey("mail_type", "of what: BEGIN, END, FAIL, … (--mail-type)"),
    TextsKey("extra_args", "further options of sbatch, as they stand"),
    TextsKey("srun_args", "further options of srun, as they stand"),
};

constexpr Key kLabelKeys[] = {TextKey("*", "the label of that name")};
constexpr Section kLabelSection = {.keys = kLabelKeys};
constexpr Key kTolerationKeys[] = {
    TextKey("key", "taint that is tolerated; null: every one"),
    ChoiceKey("operator", "Equal", "Equal Exists", "whether the value counts"),
    TextKey("value", "of the taint"),
    ChoiceKey("effect", "", "NoSchedule PreferNoSchedule NoExecute",
              "what the taint does; null: all of them"),
    SizeKey("toleration_seconds", "", "seconds", "NoExecute: how long; null: for ever"),
};
constexpr Section kTolerationSection = {.keys = kTolerationKeys};
constexpr Key kVolumeKeys[] = {
    TextKey("name", "a name of its own, in lower case"),
    TextKey("mount_path", "where the pods see it"),
    TextKey("claim", "a persistent volume claim"),
    TextKey("host_path", "a directory of the node"),
    TextKey("config_map", "a config map"),
    TextKey("secret", "a secret"),
    TextKey("empty_dir", "room that ends with the pod; Memory, or Disk"),
    TextKey("sub_path", "the part of it that is mounted"),
    BoolKey("read_only", "false", "pods cannot write there"),
};
constexpr Section kVolumeSection = {.keys = kVolumeKeys};
constexpr Key kResourceKeys[] = {TextKey("*", "amount of that resource: 8, 100Gi")};
constexpr Section kResourceSection = {.keys = kResourceKeys};
constexpr Key kKubernetesKeys[] = {
    TextKey("namespace", "where the pods are made; null: the context's"),
    TextKey("context", "of the kubectl configuration; null: the current one"),
    TextKey("image", "of the pods"),
    ChoiceKey("image_pull_policy", "IfNotPresent", "Always IfNotPresent Never",
              "when the image is fetched"),
    TextsKey("image_pull_secrets", "secrets of the image's registry"),
    TextKey("service_account", "that the pods act as"),
    TextKey("queue", "Kueue: the local queue; null: none"),
    TextKey("priority_class", "of the pods"),
    TextKey("scheduler", "that places the pods; null: the cluster's"),
    CountKey("nodes", "", "pods", "that are made; null: as many as the layout takes"),
    SizeKey("gpus_per_node", "", "GPUs", "of a pod; null: the cluster's"),
    TextKey("gpu_resource", "what GPUs are called there", "nvidia.com/gpu"),
    SectionKey("resources", kResourceSection, "further resources of a pod: cpu, memory, rdma/…"),
    WithUnit("GiB", NumberKey("shm_gib", "", "shared memory of a pod; null: half of its memory")),
    SectionKey("node_selector", kLabelSection, "labels that nodes must have"),
    SectionKey("labels", kLabelSection, "labels of the pods"),
    SectionKey("annotations", kLabelSection, "annotations of the pods"),
    ListKey("tolerations", kTolerationSection, "taints of nodes that do no harm"),
    TextKey("topology_key",
            "label of nodes that must be the same for all pods of an NVLink domain"),
    ListKey("volumes", kVolumeSection, "mounted in each pod"),
    SectionKey("env", kEnvironmentSection, "environment of the pods"),
    TextsKey("env_from_secrets", "secrets whose keys become the environment"),
    TextKey("working_dir", "directory to begin in"),
    BoolKey("host_network", "false", "the node's network instead of the pod's own"),
    BoolKey("rdma", "false", "InfiniBand devices in the pods"),
    SizeKey("grace_s", "120", "seconds", "for a pod to save and leave before it is killed"),
    SizeKey("ttl_s", "86400", "seconds", "that a finished job is kept"),
};

// ---- trackers

constexpr Key kWandbKeys[] = {
    {.name = "enable", .type = kBool, .fallback = "true", .means = "false: as if not there"},
    TextKey("project", "name of the project", "automodel"),
    TextKey("entity", "team or user the project belongs to"),
    TextKey("name", "name of the run; null: the last two parts of the model's id"),
    TextKey("group", "runs that belong together"),
    TextsKey("tags", "words to find the run by"),
    TextKey("notes", "text beside the run"),
    TextKey("dir", "where its files go"),
    ChoiceKey("mode", "online", "online offline disabled shared", "whether it is sent"),
    TextKey("id", "the run to go on with"),
    TextKey("resume", "allow, must, never or auto"),
    TextKey("job_type", "kind of the run"),
    NoEffect(TextKey("save_dir", "of older recipes: dir")),
};
constexpr Key kTagKeys[] = {TextKey("*", "the tag of that name")};
constexpr Section kTagSection = {.keys = kTagKeys};
constexpr Key kMlflowKeys[] = {
    kUnusedTarget,
    TextKey("experiment_name", "name of the experiment", "automodel-experiment"),
    TextKey("run_name", "name of the run"),
    TextKey("tracking_uri", "the server"),
    TextKey("artifact_location", "where artifacts go"),
    SectionKey("tags", kTagSection, "of the run"),
    BoolKey("resume", "true", "go on with the same run"),
    TextKey("description", "of the run"),
    SizeKey("flatten_depth", "1", "levels", "of maps that become parameters of their own"),
};
constexpr Key kCometKeys[] = {
    kUnusedTarget,
    TextKey("project_name", "name of the project", "automodel"),
    TextKey("workspace", "of the project"),
    TextKey("api_key", "the credential"),
    TextKey("experiment_name", "name of the run"),
    TextsKey("tags", "of the run"),
    BoolKey("auto_metric_logging", "false", "Comet finds metrics itself"),
};

// ---- benchmark, compile, fp8

constexpr Key kBenchmarkKeys[] = {
    kUnusedTarget,
    SizeKey("warmup_steps", "10", "steps", "not timed"),
    {.name = "peak_tflops",
     .type = kFloat,
     .nullable = true,
     .least = kPositive,
     .unit = "TFLOP/s",
     .means = "peak of one GPU; null: the cluster's"},
    CountKey("num_nodes", "", "nodes", "the nodes that the figures are for; informational"),
    NoEffect(IntKey("nsys_start", "-1", "step at which the profiler begins; -1: never")),
    NoEffect(IntKey("nsys_end", "-1", "step at which the profiler ends; -1: never")),
    NoEffect(IntsKey("nsys_ranks", "", "ranks that are profiled")),
    Naming(Names::kOutputFile, TextKey("json_output_path", "file of the result")),
};
constexpr Key kCompileOptionKeys[] = {TextKey("*", "the compiler's option of that name")};
constexpr Section kCompileOptionSection = {.keys = kCompileOptionKeys};
constexpr Key kCompileKeys[] = {
    kUnusedTarget,
    {.name = "enabled", .type = kBool, .fallback = "false", .means = "compile the model's Python"},
    NoEffect(TextKey("mode", "how hard the compiler tries", "default")),
    NoEffect(BoolKey("fullgraph", "false", "refuse what cannot be compiled as a whole")),
    NoEffect(BoolKey("dynamic", "false", "shapes may change")),
    NoEffect(TextKey("backend", "the compiler")),
    NoEffect(SectionKey("options", kCompileOptionSection, "of the compiler")),
    NoEffect(CountKey("dynamo_cache_size_limit", "256", "programs", "kept of a function")),
};
constexpr Key kFp8Keys[] = {
    kUnusedTarget,
    {.name = "enabled", .type = kBool, .fallback = "false", .means = "FP8 in linear layers"},
    ChoiceKey("recipe_name", "", "tensorwise rowwise rowwise_with_gw_hp", "how scales are chosen"),
    BoolKey("enable_fsdp_float8_all_gather", "false", "gather weights in FP8"),
    BoolKey("precompute_float8_dynamic_scale_for_fsdp", "false",
            "all scales after the optimizer's step"),
    BoolKey("force_recompute_fp8_weight_in_bwd", "false", "FP8 weights anew in backward"),
    TextsKey("filter_fqns", "modules that stay as they are: parts of their names"),
    BoolKey("emulate", "false", "without FP8 hardware"),
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
