// What is minimised, and how.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

constexpr Key kTarget = {.name = "_target_", .means = "the part, by its Python name"};

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
constexpr Key kScalarBetas = {.name = "scalar_betas",
                              .type = kFloats,
                              .nullable = true,
                              .least = 0,
                              .most = 1,
                              .means = "their betas; null: betas"};
constexpr Key kDecay =
    NumberKey("weight_decay", "0", "share of the weights taken off a step, times lr");
constexpr Key kFusedAdamKeys[] = {
    kLr,
    kBetas,
    kEps,
    kDecay,
    kMasterWeights,
    kExpAvg,
    kExpAvgSq,
    BoolKey("master_weights", "false", "step on float32 copies of low-precision weights"),
    BoolKey("store_param_remainders", "false", "keep only the bits that the weights lack"),
    BoolKey("adam_w_mode", "true", "decay as AdamW does"),
    BoolKey("bias_correction", "true", "moments are corrected for their start at zero"),
    kAmsgrad,
};
constexpr Key kFlashAdamKeys[] = {
    kLr,
    kBetas,
    kEps,
    kDecay,
    {.name = "master_weight_bits",
     .type = kInt,
     .nullable = true,
     .fallback = "32",
     .least = 0,
     .most = 32,
     .unit = "bits",
     .means = "of a weight and its correction together"},
    BoolKey("compress_state_dict", "false", "save the moments in 8 bits"),
    BoolKey("quantize", "true", "moments in 8 bits"),
};
constexpr Key kDionKeys[] = {
    kLr,
    kBetas,
    kEps,
    kEpsilon,
    kDecay,
    kMasterWeights,
    ShareKey("mu", "0.95", "decay of the momentum"),
    ShareKey("muon_beta2", "", "normuon: decay of the second moment"),
    BoolKey("nesterov", "false", "Nesterov's momentum"),
    ChoiceKey("adjust_lr", "spectral_norm", "spectral_norm rms_norm",
              "how lr is adapted to a matrix's shape"),
    BoolKey("flatten", "false", "treat tensors of more than two dimensions as matrices"),
    BoolKey("use_triton", "false", "a GPU kernel; results are the same"),
    ShareKey("rank_fraction", "1.0", "dion: share of a matrix's rank that is kept"),
    // Parameters that are no matrices, embeddings and the output.
    ChoiceKey("scalar_opt", "adamw", "adamw lion", "optimizer of parameters that are no matrices"),
    NumberKey("scalar_lr", "", "their lr; null: lr"),
    kScalarBetas,
    NumberKey("scalar_eps", "", "their eps; null: epsilon"),
    NumberKey("embed_lr", "", "lr of the embeddings; null: scalar_lr"),
    NumberKey("lm_head_lr", "", "lr of the output; null: scalar_lr, adapted to its width"),
};
constexpr Part kOptimizers[] = {
    {.targets = "torch.optim.Adam torch.optim.adam.Adam", .name = "adam", .keys = kAdamKeys},
    {.targets = "torch.optim.AdamW torch.optim.adamw.AdamW", .name = "adamw", .keys = kAdamWKeys},
    {.targets = "torch.optim.SGD torch.optim.sgd.SGD", .name = "sgd", .keys = kSgdKeys},
    {.targets = "transformer_engine.pytorch.optimizers.fused_adam.FusedAdam "
                "transformer_engine.pytorch.optimizers.FusedAdam",
     .name = "fused_adam",
     .support = kNotTrainable,
     .keys = kFusedAdamKeys},
    {.targets = "flashoptim.FlashAdamW",
     .name = "flash_adamw",
     .support = kNotTrainable,
     .keys = kFlashAdamKeys},
    {.targets = "dion.Muon", .name = "muon", .support = kNotTrainable, .keys = kDionKeys},
    {.targets = "dion.NorMuon", .name = "normuon", .support = kNotTrainable, .keys = kDionKeys},
    {.targets = "dion.Dion", .name = "dion", .support = kNotTrainable, .keys = kDionKeys},
    {.targets = "dion.Dion2", .name = "dion2", .support = kNotTrainable, .keys = kDionKeys},
};
constexpr Key kParamGroupKeys[] = {
    TextKey("pattern", "regular expression, searched for in the parameter's name"),
    NumberKey("lr_mult", "1", "lr is multiplied by it"),
    NumberKey("wd_mult", "1", "weight_decay is multiplied by it"),
};
constexpr Section kParamGroupSection = {.keys = kParamGroupKeys};
constexpr Key kOptimizerKeys[] = {
    kTarget,
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
    NotTrainable(ListKey("param_group_overrides", kParamGroupSection,
                         "learning rates and decays by parameter name")),
    // Read by the draft-model and diffusion recipes, beside the optimizer's own.
    NoEffect(ShareKey("warmup_ratio", "0", "draft models: share of the steps that warm up")),
    NoEffect(ShareKey("min_lr_ratio", "0", "draft models: the last lr, as a share of lr")),
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
    NotTrainable(TextKey("schedule", "constant, linear or cosine"), "use lr_decay_style"),
    NotTrainable(ShareKey("warmup_ratio", "", "share of the steps that warm up"),
                 "use lr_warmup_steps"),
    NotTrainable(SizeKey("warmup_steps", "", "steps", "that warm up"), "use lr_warmup_steps"),
    kUnusedTarget,
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
constexpr Key kKdKeys[] = {
    kIgnoreIndex,
    NumberKey("temperature", "1.0", "logits are divided by it before they are compared"),
    kUpcast,
    SizeKey("chunk_size", "0", "positions", "whose logits exist at a time; 0: all"),
};
constexpr Key kParseKeys[] = {
    NumberKey("coordinate_weight", "10.0", "weight of the tokens that are coordinates"),
    SizeKey("class_token_start_idx", "50000", "", "the first id that is a class or a coordinate"),
    CountKey("num_heads", "1", "heads", "that predict further tokens"),
    kIgnoreIndex,
    kUpcast,
};
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
     .keys = kKdKeys},
    {.targets = "nemo_automodel.components.models.gemma4_moe.loss."
                "Gemma4TensorParallelFusedLinearCrossEntropy",
     .name = "gemma4_fused_linear_ce",
     .support = kNotTrainable,
     .keys = kFusedKeys},
    {.targets = "nemo_automodel.components.models.nemotron_parse.nemotron_parse_loss."
                "NemotronParseLoss",
     .name = "nemotron_parse",
     .support = kNotTrainable,
     .keys = kParseKeys},
};
constexpr Key kLossKeys[] = {kTarget};

}  // namespace

const Section kOptimizerSection = {
    .keys = kOptimizerKeys, .parts = kOptimizers, .default_part = "adam"};
const Section kLrSchedulerSection = {.keys = kLrSchedulerKeys};
const Section kKdLossSection = {.keys = kLossKeys, .parts = kLosses, .default_part = "kd"};
const Section kLossSection = {.keys = kLossKeys, .parts = kLosses, .default_part = "masked_ce"};

}  // namespace am::recipe
