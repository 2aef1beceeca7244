// How a model is laid out over ranks.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

constexpr Key kMpPolicyKeys[] = {
    NoEffect(TargetKey("MixedPrecisionPolicy")),
    {.name = "param_dtype",
     .type = kDtype,
     .nullable = true,
     .means = "dtype of weights and arithmetic in forward and backward"},
    {.name = "reduce_dtype",
     .type = kDtype,
     .nullable = true,
     .fallback = "float32",
     .means = "dtype in which gradients are summed over ranks"},
    {.name = "output_dtype", .type = kDtype, .nullable = true, .means = "dtype of the logits"},
    {.name = "cast_forward_inputs",
     .type = kBool,
     .fallback = "true",
     .means = "token ids need no cast",
     .support = kNoEffect},
};
constexpr Part kMpPolicies[] = {
    {.targets = "torch.distributed.fsdp.MixedPrecisionPolicy", .name = "mp_policy"}};
constexpr Section kMpPolicySection = {
    .keys = kMpPolicyKeys, .parts = kMpPolicies, .default_part = "mp_policy"};

constexpr Key kOffloadKeys[] = {
    TargetKey("CPUOffloadPolicy"),
    BoolKey("pin_memory", "true", "in memory that a GPU reads directly"),
};
constexpr Part kOffloads[] = {
    {.targets = "torch.distributed.fsdp.CPUOffloadPolicy", .name = "cpu"}};
constexpr Section kOffloadSection = {
    .keys = kOffloadKeys, .parts = kOffloads, .default_part = "cpu"};

// Towers of multimodal models.
constexpr Key kFrameShardingKeys[] = {
    BoolKey("enabled", "false", "each rank sees its share of the frames"),
    TextsKey("mesh_dims", "axes that share the frames"),
    SizeKey("min_tokens", "0", "tokens", "with fewer, every rank sees all"),
    TextKey("cost_alpha", "cost of a frame's attention against the rest of it: a number or auto"),
};
constexpr Section kFrameShardingSection = {.keys = kFrameShardingKeys};
constexpr Key kVisionKeys[] = {
    SectionKey("frame_sharding", kFrameShardingSection, "frames shared between ranks"),
};
constexpr Section kVisionSection = {.keys = kVisionKeys};
constexpr Key kMultimodalKeys[] = {
    ChoiceKey("frozen_sharding", "root", "root per_layer replicate",
              "towers that are not trained: sharded as one, by layer, or copied"),
    SectionKey("vision", kVisionSection, "the vision tower"),
};
constexpr Section kMultimodalSection = {.keys = kMultimodalKeys};

constexpr Key kPipelineKeys[] = {
    kUnusedTarget,
    {.name = "pp_schedule",
     .type = kChoice,
     .nullable = true,
     .fallback = "1f1b",
     .choices =
         "1f1b interleaved1f1b gpipe loopedbfs interleavedzerobubble zbvzerobubble dualpipev",
     .means = "order of the micro-batches"},
    {.name = "pp_schedule_csv",
     .nullable = true,
     .means = "a schedule of one's own, as a file",
     .support = kNotTrainable,
     .names = Names::kInput},
    {.name = "pp_microbatch_size",
     .type = kInt,
     .fallback = "1",
     .least = 1,
     .unit = "samples",
     .means = "samples that travel together through the stages"},
    {.name = "pp_batch_size",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "samples",
     .means = "derived: local_batch_size",
     .support = kNoEffect},
    {.name = "layers_per_stage",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "layers",
     .means = "null: the layers are cut evenly, one stage a rank, two if the schedule interleaves"},
    {.name = "round_virtual_stages_to_pp_multiple",
     .type = kChoice,
     .nullable = true,
     .choices = "up down",
     .means = "what to do where the stages do not divide by pp_size"},
    {.name = "module_fqns_per_model_part",
     .type = kFree,
     .nullable = true,
     .means = "modules of each stage by name",
     .support = kNotTrainable},
    NoEffect(BoolKey("patch_inner_model", "true", "replace Python of the model")),
    NoEffect(BoolKey("patch_causal_lm_model", "true", "replace Python of the model's head")),
    NoEffect(BoolKey("patch_stage_backward_maybe_with_nosync", "false",
                     "replace Python of a stage's backward")),
    {.name = "dtype",
     .type = kDtype,
     .nullable = true,
     .means = "of what travels; null: output_dtype"},
    NoEffect(BoolKey("scale_grads_in_schedule", "false",
                     "divide gradients by the micro-batches; they are normalised over the global "
                     "batch")),
    {.name = "pp_seq_len",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "tokens",
     .means = "length of the samples; null: of the packs or the data set"},
};
constexpr Section kPipelineSection = {.keys = kPipelineKeys};

constexpr Key kMoeKeys[] = {
    kUnusedTarget,
    {.name = "ignore_router_for_ac",
     .type = kBool,
     .fallback = "true",
     .means = "never recompute the router"},
    {.name = "reshard_after_forward",
     .type = kBool,
     .nullable = true,
     .fallback = "false",
     .means = "of the experts"},
    {.name = "lm_head_precision", .type = kDtype, .nullable = true, .means = "of the logits"},
    NoEffect(BoolKey("wrap_outer_model", "true", "what Python wraps")),
    {.name = "mp_policy",
     .type = kSection,
     .nullable = true,
     .means = "mixed precision of the experts",
     .section = &kMpPolicySection},
};
constexpr Section kMoeSection = {.keys = kMoeKeys};

constexpr Key kDegree = {.type = kInt, .nullable = true, .fallback = "1"};

constexpr Key Degree(std::string_view name, std::string_view means) {
  Key key = kDegree;
  key.name = name;
  key.means = means;
  key.unit = "ranks";
  key.support = kNotTrainable;
  key.neutral = "1 0 -1";
  key.instead = "use 1";
  return key;
}

constexpr Key kDistributedKeys[] = {
    {.name = "_target_", .means = "of older recipes", .support = kNoEffect},
    {.name = "strategy",
     .type = kChoice,
     .fallback = "fsdp2",
     .choices = "fsdp2 ddp megatron_fsdp=megatron-fsdp=mfsdp",
     .means = "fsdp2 shards weights, gradients and moments over dp; ddp copies them",
     .support = kNotTrainable,
     .neutral = "fsdp2 ddp",
     .instead = "use fsdp2"},
    {.name = "dp_size",
     .type = kInt,
     .nullable = true,
     .unit = "ranks",
     .means = "data-parallel ranks; null: what the other degrees leave of the world"},
    {.name = "dp_replicate_size",
     .type = kInt,
     .nullable = true,
     .fallback = "1",
     .unit = "ranks",
     .means = "copies of the sharded model (HSDP); divides dp_size"},
    Degree("tp_size", "ranks that share each weight matrix (tensor parallel)"),
    Degree("cp_size", "ranks that share each sequence (context parallel)"),
    Degree("pp_size", "ranks that share the layers (pipeline parallel)"),
    Degree("ep_size", "ranks that share the experts; divides dp_size · cp_size"),
    {.name = "sequence_parallel",
     .type = kBool,
     .nullable = true,
     .fallback = "false",
     .means = "with tp: shard activations along the sequence as well"},
    {.name = "activation_checkpointing",
     .type = kChoice,
     .nullable = true,
     .fallback = "off",
     .choices = "off=false=no=none=disabled full=true=on=yes=enabled selective",
     .means = "recompute activations in backward instead of keeping them"},
    {.name = "activation_checkpointing_scope",
     .type = kTexts,
     .nullable = true,
     .fallback = "all",
     .means = "which towers of a multimodal model",
     .support = kNoEffect},
    {.name = "mp_policy",
     .type = kSection,
     .nullable = true,
     .means = "mixed precision",
     .section = &kMpPolicySection},
    {.name = "reshard_after_forward",
     .type = kBool,
     .nullable = true,
     .means = "free gathered weights after forward; null: of all blocks but the last"},
    NotTrainable(PartKey("offload_policy", kOffloadSection, "keep shards in host memory"),
                 "use null"),
    {.name = "autocast_dtype",
     .type = kDtype,
     .nullable = true,
     .means = "dtype of an autocast around forward",
     .support = kNotTrainable,
     .instead = "use mp_policy.param_dtype"},
    {.name = "pipeline",
     .type = kSection,
     .nullable = true,
     .means = "how the pipeline runs; needed where pp_size > 1",
     .section = &kPipelineSection},
    {.name = "moe",
     .type = kSection,
     .nullable = true,
     .means = "experts; unused where ep_size is 1",
     .section = &kMoeSection},
    NotTrainable(SectionKey("multimodal", kMultimodalSection, "towers of multimodal models")),
    // What only changes the speed of another program.
    {.name = "defer_fsdp_grad_sync",
     .type = kBool,
     .nullable = true,
     .fallback = "true",
     .means = "reduce gradients with the last micro-batch alone; always so",
     .support = kNoEffect},
    {.name = "tp_plan",
     .type = kFree,
     .nullable = true,
     .means = "how each module is cut; the model says so itself",
     .support = kNoEffect},
    NoEffect(BoolKey("use_hf_tp_plan", "false", "the plan of the model's Python")),
    NoEffect(BoolKey("patch_is_packed_sequence", "false", "replace Python of packed attention")),
    NoEffect(BoolKey("enable_async_tensor_parallel", "false",
                     "overlap tensor-parallel communication with arithmetic")),
    NoEffect(BoolKey("enable_compile", "false", "compile each layer's Python")),
    NoEffect(BoolKey("enable_fsdp2_prefetch", "false", "gather layers ahead; always so")),
    NoEffect(SizeKey("fsdp2_backward_prefetch_depth", "2", "layers", "gathered ahead")),
    NoEffect(SizeKey("fsdp2_forward_prefetch_depth", "1", "layers", "gathered ahead")),
    // DDP
    {.name = "broadcast_buffers",
     .type = kBool,
     .fallback = "false",
     .means = "ddp: rank 0's buffers before each forward"},
    NoEffect(BoolKey("find_unused_parameters", "false",
                     "ddp: do not wait for parameters without a gradient")),
    NoEffect(BoolKey("static_graph", "false", "ddp: every step is alike")),
    NoEffect(CountKey("bucket_cap_mb", "", "MB", "ddp: gradients reduced together")),
    NoEffect(BoolKey("gradient_as_bucket_view", "false", "ddp: gradients lie in the buckets")),
    // Megatron-FSDP
    NoEffect(TextsKey("megatron_fsdp_unit_modules", "megatron_fsdp: classes sharded as one")),
    {.name = "zero_dp_strategy",
     .type = kInt,
     .nullable = true,
     .fallback = "3",
     .least = 0,
     .most = 3,
     .means = "megatron_fsdp: what is sharded: 0 nothing, 1 moments, 2 gradients as well, 3 all",
     .support = kNoEffect},
    NoEffect(BoolKey("init_fsdp_with_meta_device", "false", "megatron_fsdp: weights made sharded")),
    NoEffect(
        BoolKey("grad_reduce_in_fp32", "false", "megatron_fsdp: reduce in float32; always so")),
    NoEffect(BoolKey("preserve_fp32_weights", "false", "megatron_fsdp: float32 master weights")),
    NoEffect(BoolKey("overlap_grad_reduce", "true", "megatron_fsdp: reduce beside backward")),
    NoEffect(BoolKey("overlap_param_gather", "true", "megatron_fsdp: gather beside forward")),
    NoEffect(BoolKey("check_for_nan_in_grad", "true", "megatron_fsdp: stop at a bad gradient")),
    NoEffect(BoolKey("report_nan_in_param_grad", "false", "megatron_fsdp: name the parameter")),
    NoEffect(BoolKey("average_in_collective", "false", "megatron_fsdp: where sums are divided")),
    NoEffect(BoolKey("disable_bucketing", "false", "megatron_fsdp: one collective for all")),
    NoEffect(BoolKey("calculate_per_token_loss", "false", "megatron_fsdp: divide by tokens")),
    NoEffect(BoolKey("keep_fp8_transpose_cache", "false", "megatron_fsdp: keep FP8 transposes")),
    NoEffect(BoolKey("nccl_ub", "false", "megatron_fsdp: buffers that NCCL has registered")),
    NoEffect(BoolKey("fsdp_double_buffer", "false", "megatron_fsdp: two buffers by turns")),
    NoEffect(BoolKey("_recursive_", "", "of another program's configuration")),
    NoEffect(TextKey("_convert_", "of another program's configuration")),
};

// The diffusion recipes' name for the same degrees.
constexpr Key kFsdpKeys[] = {
    {.name = "dp_size",
     .type = kInt,
     .nullable = true,
     .unit = "ranks",
     .means = "as distributed.dp_size"},
    {.name = "dp_replicate_size",
     .type = kInt,
     .nullable = true,
     .fallback = "1",
     .unit = "ranks",
     .means = "as distributed.dp_replicate_size"},
    Degree("tp_size", "as distributed.tp_size"),
    Degree("cp_size", "as distributed.cp_size"),
    Degree("pp_size", "as distributed.pp_size"),
    Degree("ep_size", "as distributed.ep_size"),
    BoolKey("activation_checkpointing", "false", "as distributed.activation_checkpointing"),
    BoolKey("cpu_offload", "false", "keep shards in host memory"),
    BoolKey("use_hf_tp_plan", "false", "as distributed.use_hf_tp_plan"),
    BoolKey("defer_fsdp_grad_sync", "true", "as distributed.defer_fsdp_grad_sync"),
    BoolKey("enable_compile", "false", "as distributed.enable_compile"),
    BoolKey("enable_fsdp2_prefetch", "false", "as distributed.enable_fsdp2_prefetch"),
    SizeKey("fsdp2_backward_prefetch_depth", "2", "layers", "gathered ahead"),
    SizeKey("fsdp2_forward_prefetch_depth", "1", "layers", "gathered ahead"),
    DtypeKey("reduce_dtype", "float32", "dtype in which gradients are summed over ranks"),
};

// The same, of recipes that copy the model instead.
constexpr Key kDdpKeys[] = {
    TextKey("backend", "collectives: nccl or gloo", "nccl"),
    BoolKey("activation_checkpointing", "false", "recompute activations in backward"),
    BoolKey("find_unused_parameters", "false", "do not wait for parameters without a gradient"),
};

// What older recipes had instead of distributed.pipeline and of moe.
constexpr Key kAutoPipelineKeys[] = {TargetKey("AutoPipeline")};
constexpr Part kAutoPipelines[] = {
    {.targets = "nemo_automodel.components.distributed.pipelining.AutoPipeline "
                "nemo_automodel.components.distributed.pipelining.config.PipelineConfig",
     .name = "pipeline",
     .keys = kPipelineKeys}};
constexpr Key kParallelizerKeys[] = {
    TargetKey("parallelize_model"),
    BoolKey("activation_checkpointing", "false", "as distributed.activation_checkpointing"),
    BoolKey("reshard_after_forward", "false", "as distributed.moe.reshard_after_forward"),
};
constexpr Part kParallelizers[] = {
    {.targets = "nemo_automodel.components.moe.parallelizer.parallelize_model", .name = "moe"}};
constexpr Part kDistributedConfigs[] = {
    {.targets = "nemo_automodel.components.distributed.config.FSDP2Config", .name = "fsdp2"}};
constexpr Key kDistributedConfigKeys[] = {TargetKey("FSDP2Config")};

}  // namespace

const Section kFsdpSection = {.keys = kFsdpKeys};
const Section kDdpSection = {.keys = kDdpKeys};
const Section kAutoPipelineSection = {
    .keys = kAutoPipelineKeys, .parts = kAutoPipelines, .default_part = "pipeline"};
const Section kParallelizerSection = {
    .keys = kParallelizerKeys, .parts = kParallelizers, .default_part = "moe"};
const Section kDistributedConfigSection = {
    .keys = kDistributedConfigKeys, .parts = kDistributedConfigs, .default_part = "fsdp2"};
const Section kDistributedSection = {.keys = kDistributedKeys};

}  // namespace am::recipe
