// How long a model is trained, and what its numbers hang on.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

// ---- step_scheduler

constexpr Key kStepSchedulerKeys[] = {
    {.name = "grad_acc_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "micro-batches",
     .means =
         "micro-batches accumulated before an optimizer step; the global batch follows from it"},
    {.name = "global_batch_size",
     .type = kInt,
     .nullable = true,
     .fallback = "32",
     .least = 1,
     .unit = "samples",
     .means = "samples an optimizer step over all data-parallel ranks"},
    {.name = "local_batch_size",
     .type = kInt,
     .nullable = true,
     .fallback = "1",
     .least = 1,
     .unit = "samples",
     .means = "samples a micro-batch on each data-parallel rank"},
    {.name = "num_epochs",
     .type = kInt,
     .nullable = true,
     .fallback = "10",
     .least = 1,
     .unit = "epochs",
     .means = "passes over the data set; null: as many as max_steps takes"},
    {.name = "max_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "optimizer steps after which training ends; null: after num_epochs"},
    {.name = "ckpt_every_steps",
     .type = kInt,
     .nullable = true,
     .fallback = "100",
     .least = 1,
     .unit = "steps",
     .means = "a checkpoint every so many optimizer steps; null: once an epoch"},
    {.name = "save_checkpoint_every_epoch",
     .type = kBool,
     .fallback = "true",
     .means = "a checkpoint at the end of each epoch, too"},
    {.name = "val_every_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "validation every so many optimizer steps; null: before checkpoints alone"},
    {.name = "log_remote_every_steps",
     .type = kInt,
     .nullable = true,
     .fallback = "1",
     .least = 1,
     .unit = "steps",
     .means = "cadence of the trackers",
     .support = kNoEffect},
    {.name = "loss_average_window_steps",
     .type = kInt,
     .nullable = true,
     .fallback = "50",
     .least = 1,
     .unit = "steps",
     .means = "window of an average that other recipes print",
     .support = kNoEffect},
    {.name = "gc_every_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "cadence of Python's garbage collector; there is none here",
     .support = kNoEffect},
    {.name = "start_step",
     .type = kInt,
     .nullable = true,
     .fallback = "0",
     .least = 0,
     .unit = "steps",
     .means = "the first step's number less one",
     .support = kNotTrainable,
     .neutral = "0",
     .instead = "resume from a checkpoint"},
    {.name = "start_epoch",
     .type = kInt,
     .nullable = true,
     .fallback = "0",
     .least = 0,
     .unit = "epochs",
     .means = "the first epoch's number",
     .support = kNotTrainable,
     .neutral = "0",
     .instead = "resume from a checkpoint"},
    {.name = "preemption_signal",
     .type = kTexts,
     .nullable = true,
     .fallback = "SIGTERM",
     .means = "the signal that means save and leave; TERM and USR1 both do, always",
     .support = kNoEffect},
    {.name = "dp_size", .type = kFree, .nullable = true, .means = "derived", .support = kNoEffect},
    {.name = "dataloader",
     .type = kFree,
     .nullable = true,
     .means = "derived",
     .support = kNoEffect},
    kUnusedTarget,
};

// ---- dist_env

constexpr Key kDistEnvKeys[] = {
    {.name = "backend",
     .type = kChoice,
     .fallback = "nccl",
     .choices = "nccl gloo cpu:gloo,cuda:nccl=cuda:nccl,cpu:gloo",
     .means = "collectives: nccl between GPUs, gloo between CPUs; nccl becomes gloo without a GPU"},
    {.name = "timeout_minutes",
     .type = kFloat,
     .nullable = true,
     .fallback = "1",
     .least = kPositive,
     .unit = "minutes",
     .means = "after which a collective counts as hung"},
    {.name = "init_method",
     .nullable = true,
     .means = "the rendezvous is amctl's own",
     .support = kNoEffect},
    kUnusedTarget,
};

// ---- clip_grad_norm, rng

constexpr Key kClipGradNormKeys[] = {
    {.name = "max_norm",
     .type = kFloat,
     .nullable = true,
     .fallback = "1.0",
     .least = 0,
     .means = "gradients are scaled down to this L2 norm; null or 0: never"},
    {.name = "foreach",
     .type = kBool,
     .nullable = true,
     .means = "a way to loop",
     .support = kNoEffect},
};
constexpr Key kRngKeys[] = {
    NoEffect(TargetKey("StatefulRNG")),
    {.name = "seed",
     .type = kInt,
     .fallback = "42",
     .least = 0,
     .means = "of shuffling, dropout and new weights; a top-level seed wins"},
    {.name = "ranked",
     .type = kBool,
     .fallback = "false",
     .means = "random numbers are counted per sample, so every layout draws the same",
     .support = kNoEffect},
    {.name = "deterministic",
     .type = kBool,
     .fallback = "false",
     .means = "always so",
     .support = kNoEffect},
};

constexpr Part kRngs[] = {
    {.targets = "nemo_automodel.components.training.rng.StatefulRNG", .name = "rng"}};

}  // namespace

const Section kStepSchedulerSection = {.keys = kStepSchedulerKeys};
const Section kDistEnvSection = {.keys = kDistEnvKeys};
const Section kClipGradNormSection = {.keys = kClipGradNormKeys};
const Section kRngSection = {.keys = kRngKeys, .parts = kRngs, .default_part = "rng"};

}  // namespace am::recipe
