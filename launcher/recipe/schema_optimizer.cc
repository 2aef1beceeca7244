// What is minimised, and how.
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

constexpr Key kTargetKey = {.name = "_target_", .means = "the part, by its Python name"};

// ---- optimizer

constexpr Key kLr = {
    .name = "lr", .type = kFloat, .fallback = "1e-3", .least = 0, .means = "learning rate"};
constexpr Key kBetas = {.name = "betas",
                        .type = kFloats,
                        .fallback = "[0.9, 0.999]",
                        .least = 0,
                        .most = 1,
                        .means = "decay of the first and the second moment"};
constexpr Key kEps = {.name = "eps",
                      .type = kFloat,
                      .fallback = "1e-8",
                      .least = 0,
                      .means = "added to the denominator"};
constexpr Key kEpsilon = {
    .name = "epsilon", .type = kFloat, .least = 0, .means = "as eps", .support = kNoEffect};
constexpr Key kAmsgrad = {.name = "amsgrad",
                          .type = kBool,
                          .fallback = "false",
                          .means = "divide by the largest second moment so far"};
constexpr Key kMaximize = {
    .name = "maximize", .type = kBool, .fallback = "false", .means = "go up the gradient"};
constexpr Key kMasterWeights = {
    .name = "master_weight_dtype",
    .type = kDtype,
    .nullable = true,
    .fallback = "float32",
    .means = "dtype of the copy of low-precision weights that the optimizer steps on"};
constexpr Key kExpAvg = {.name = "exp_avg_dtype",
                         .type = kDtype,
                         .nullable = true,
                         .fallback = "float32",
                         .means = "dtype of the first moment"};
constexpr Key kExpAvgSq = {.name = "exp_avg_sq_dtype",
                           .type = kDtype,
                           .nullable = true,
                           .fallback = "float32",
                           .means = "dtype of the second moment"};

constexpr Key kAdamKeys[] = {
    kLr,
    kBetas,
    kEps,
    {.name = "weight_decay",
     .type = kFloat,
     .fallback = "0",
     .least = 0,
     .means = "L2 penalty, added to the gradient"},
    kAmsgrad,
    kMaximize,
    kMasterWeights,
    kExpAvg,
    kExpAvgSq,
    {.name = "decoupled_weight_decay",
     .type = kBool,
     .fallback = "false",
     .means = "decay as AdamW does",
     .support = kNotTrainable,
     .instead = "use torch.optim.AdamW"},
};
constexpr Key kAdamWKeys[] = {
    kLr,
    kBetas,
    kEps,
    {.name = "weight_decay",
     .type = kFloat,
     .fallback = "0.01",
     .least = 0,
     .means = "share of the weights taken off a step, times lr"},
    kAmsgrad,
    kMaximize,
    kMasterWeights,
    kExpAvg,
    kExpAvgSq,
};
constexpr Key kSgdKeys[] = {
    kLr,
    {.name = "momentum", .type = kFloat, .fallback = "0", .least = 0, .means = "of the velocity"},
    {.name = "dampening", .type = kFloat, .fallback = "0", .means = "of the momentum"},
    {.name = "weight_decay",
     .type = kFloat,
     .fallback = "0",
     .least = 0,
     .means = "L2 penalty, added to the gradient"},
    {.name = "nesterov", .type = kBool, .fallback = "false", .means = "Nesterov's momentum"},
    kMaximize,
    kMasterWeights,
};
constexpr Key kOtherOptimizerKeys[] = {
    kLr,
    kBetas,
    kEps,
    kEpsilon,
    {.name = "weight_decay", .type = kFloat, .fallback = "0", .least = 0, .means = "decay"},
    kMasterWeights,
    kExpAvg,
    kExpAvgSq,
};
constexpr Part kOptimizers[] = {
    {.targets = "torch.optim.Adam torch.optim.adam.Adam", .name = "adam", .keys = kAdamKeys},
    {.targets = "torch.optim.AdamW torch.optim.adamw.AdamW", .name = "adamw", .keys = kAdamWKeys},
    {.targets = "torch.optim.SGD torch.optim.sgd.SGD", .name = "sgd", .keys = kSgdKeys},
    {.targets = "transformer_engine.pytorch.optimizers.fused_adam.FusedAdam "
                "transformer_engine.pytorch.optimizers.FusedAdam",
     .name = "fused_adam",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
    {.targets = "flashoptim.FlashAdamW",
     .name = "flash_adamw",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
    {.targets = "dion.Muon",
     .name = "muon",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
    {.targets = "dion.NorMuon",
     .name = "normuon",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
    {.targets = "dion.Dion",
     .name = "dion",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
    {.targets = "dion.Dion2",
     .name = "dion2",
     .support = kNotTrainable,
     .keys = kOtherOptimizerKeys,
     .open = true},
};
constexpr Key kOptimizerKeys[] = {
    kTargetKey,
    {.name = "foreach",
     .type = kBool,
     .nullable = true,
     .means = "a way to loop",
     .support = kNoEffect},
    {.name = "fused",
     .type = kBool,
     .nullable = true,
     .means = "a way to loop; it is always fused",
     .support = kNoEffect},
    {.name = "capturable", .type = kBool, .means = "for CUDA graphs", .support = kNoEffect},
    {.name = "differentiable",
     .type = kBool,
     .means = "for gradients of steps",
     .support = kNoEffect},
    {.name = "param_group_overrides",
     .type = kFree,
     .nullable = true,
     .means = "learning rates and decays by parameter name",
     .support = kNotTrainable,
     .neutral = "[]"},
    // Read by the draft-model and diffusion recipes, beside the optimizer's own.
    {.name = "warmup_ratio",
     .type = kFloat,
     .nullable = true,
     .means = "of other recipes",
     .support = kNoEffect},
    {.name = "min_lr_ratio",
     .type = kFloat,
     .nullable = true,
     .means = "of other recipes",
     .support = kNoEffect},
};

// ---- lr_scheduler

constexpr Key kLrSchedulerKeys[] = {
    {.name = "lr_decay_style",
     .type = kChoice,
     .fallback = "cosine",
     .choices = "constant linear cosine inverse-square-root=inverse_square_root WSD",
     .means = "how the learning rate falls after the warm-up"},
    {.name = "lr_warmup_steps",
     .type = kInt,
     .nullable = true,
     .least = 0,
     .unit = "steps",
     .means = "steps from init_lr to max_lr; null: a tenth of all steps, at most 1000"},
    {.name = "lr_decay_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "steps after which min_lr is reached; null: all steps"},
    {.name = "init_lr",
     .type = kFloat,
     .nullable = true,
     .least = 0,
     .means = "of the first step; null: a tenth of the optimizer's lr"},
    {.name = "max_lr",
     .type = kFloat,
     .nullable = true,
     .least = 0,
     .means = "after the warm-up; null: the optimizer's lr"},
    {.name = "min_lr",
     .type = kFloat,
     .nullable = true,
     .least = 0,
     .means = "at the end; null: a hundredth of the optimizer's lr"},
    {.name = "start_wd",
     .type = kFloat,
     .nullable = true,
     .least = 0,
     .means = "weight decay of the first step; null: the optimizer's"},
    {.name = "end_wd",
     .type = kFloat,
     .nullable = true,
     .least = 0,
     .means = "weight decay at the end; null: the optimizer's"},
    {.name = "wd_incr_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "steps from start_wd to end_wd; null: all steps"},
    {.name = "wd_incr_style",
     .type = kChoice,
     .fallback = "constant",
     .choices = "constant linear cosine",
     .means = "how the weight decay goes there"},
    {.name = "wsd_decay_steps",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "steps",
     .means = "length of WSD's decay at the end"},
    {.name = "lr_wsd_decay_style",
     .type = kChoice,
     .fallback = "linear",
     .choices = "linear cosine exponential minus_sqrt",
     .means = "the shape of WSD's decay"},
    {.name = "use_checkpoint_opt_param_scheduler",
     .type = kBool,
     .fallback = "true",
     .means = "on resume, the checkpoint's schedule wins over the recipe's"},
    {.name = "override_opt_param_scheduler",
     .type = kBool,
     .fallback = "false",
     .means = "on resume, the recipe's schedule wins over the checkpoint's"},
    // Of the draft-model and diffusion recipes.
    {.name = "schedule", .nullable = true, .means = "of other recipes", .support = kNotTrainable},
    {.name = "warmup_ratio",
     .type = kFloat,
     .nullable = true,
     .means = "of other recipes",
     .support = kNotTrainable,
     .instead = "use lr_warmup_steps"},
    {.name = "warmup_steps",
     .type = kInt,
     .nullable = true,
     .means = "of other recipes",
     .support = kNotTrainable,
     .instead = "use lr_warmup_steps"},
    {.name = "_target_", .support = kNoEffect},
};

// ---- loss_fn

constexpr Key kIgnoreIndex = {.name = "ignore_index",
                              .type = kInt,
                              .fallback = "-100",
                              .means = "the label of positions that do not count"};
constexpr Key kReduction = {.name = "reduction",
                            .type = kChoice,
                            .fallback = "sum",
                            .choices = "sum mean none",
                            .means = "the loss is normalised over the global batch",
                            .support = kNotTrainable,
                            .neutral = "sum",
                            .instead = "use sum"};
constexpr Key kUpcast = {.name = "fp32_upcast",
                         .type = kBool,
                         .fallback = "true",
                         .means = "softmax and sum in float32"};
constexpr Key kMaskedKeys[] = {kUpcast, kIgnoreIndex, kReduction};
constexpr Key kChunkedKeys[] = {{.name = "chunk_len",
                                 .type = kInt,
                                 .fallback = "32",
                                 .least = 1,
                                 .unit = "positions",
                                 .means = "positions whose logits exist at a time"},
                                {.name = "compile",
                                 .type = kBool,
                                 .fallback = "true",
                                 .means = "a way to compute",
                                 .support = kNoEffect},
                                kIgnoreIndex,
                                kReduction};
constexpr Key kFusedKeys[] = {{.name = "logit_softcapping",
                               .type = kFloat,
                               .nullable = true,
                               .fallback = "0",
                               .least = 0,
                               .means = "cap · tanh(logits / cap); 0: none"},
                              kIgnoreIndex,
                              kReduction};
constexpr Key kParallelKeys[] = {
    {.name = "tp_group", .type = kFree, .nullable = true, .means = "derived", .support = kNoEffect},
    kIgnoreIndex,
    kReduction};
constexpr Part kLosses[] = {
    {.targets = "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy",
     .name = "masked_ce",
     .keys = kMaskedKeys},
    {.targets = "nemo_automodel.components.loss.chunked_ce.ChunkedCrossEntropy",
     .name = "chunked_ce",
     .keys = kChunkedKeys},
    {.targets = "nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy",
     .name = "fused_linear_ce",
     .keys = kFusedKeys},
    {.targets = "nemo_automodel.components.loss.te_parallel_ce.TEParallelCrossEntropy",
     .name = "parallel_ce",
     .keys = kParallelKeys},
    {.targets = "nemo_automodel.components.loss.kd_loss.KDLoss",
     .name = "kd",
     .support = kNotTrainable,
     .open = true},
    {.targets = "nemo_automodel.components.models.gemma4_moe.loss."
                "Gemma4TensorParallelFusedLinearCrossEntropy",
     .name = "gemma4_fused_linear_ce",
     .support = kNotTrainable,
     .open = true},
    {.targets = "nemo_automodel.components.models.nemotron_parse.nemotron_parse_loss."
                "NemotronParseLoss",
     .name = "nemotron_parse",
     .support = kNotTrainable,
     .open = true},
};
constexpr Key kLossKeys[] = {kTargetKey};

}  // namespace

const Section kOptimizerSection = {
    .keys = kOptimizerKeys, .parts = kOptimizers, .default_part = "adam"};
const Section kLrSchedulerSection = {.keys = kLrSchedulerKeys};
const Section kLossSection = {.keys = kLossKeys, .parts = kLosses, .default_part = "masked_ce"};

}  // namespace am::recipe
