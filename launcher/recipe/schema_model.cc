// Which model, and what is put on it.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

// ---- model.backend: kernels of the natively implemented models. Ours are chosen by the machine;
// results are the same.

constexpr Key kTeFp8Keys[] = {
    TargetKey("TEFp8Config"),
    ChoiceKey("recipe", "current", "current block mxfp8",
              "how scales are chosen: of a tensor, of a block of it, of 32 values"),
};
constexpr Part kTeFp8s[] = {
    {.targets = "nemo_automodel.components.models.common.utils.TEFp8Config", .name = "te_fp8"}};
constexpr Section kTeFp8Section = {.keys = kTeFp8Keys, .parts = kTeFp8s, .default_part = "te_fp8"};

constexpr Key kCudaGraphKeys[] = {TextsKey("modules", "parts of a layer that are recorded")};
constexpr Section kCudaGraphSection = {.keys = kCudaGraphKeys};

constexpr Key kMokKeys[] = {
    CountKey("macrobatch_size", "", "tokens", "that are dispatched together"),
    CountKey("minibatch_size", "", "tokens", "that an expert takes at a time"),
    NumberKey("schedule_capacity_multiplier", "", "room for an expert, against the mean"),
    CountKey("fwd_num_comm_sms", "", "SMs", "that communicate in forward"),
    CountKey("bwd_num_comm_sms", "", "SMs", "that communicate in backward"),
    CountKey("all_gather_top_experts_chunk_bytes", "", "bytes", "of a piece of the routing table"),
};
constexpr Section kMokSection = {.keys = kMokKeys};

constexpr Key kBackendKeys[] = {
    TargetKey("BackendConfig"),
    NoEffect(ChoiceKey("attn", "", "te sdpa torch flex eager tilelang cudnn magi",
                       "attention kernel; null: the fastest of the machine")),
    NoEffect(ChoiceKey("linear", "", "torch te quack", "kernel of linear layers")),
    NoEffect(ChoiceKey("rms_norm", "torch_fp32", "torch torch_fp32 te quack", "kernel of norms")),
    NoEffect(ChoiceKey("rope", "torch", "torch quack", "kernel of the rotation")),
    NoEffect(BoolKey("rope_fusion", "false", "rotate queries and keys in one kernel")),
    {.name = "experts",
     .type = kChoice,
     .nullable = true,
     .choices = "torch te gmm torch_mm torch_mm_mxfp8",
     .means = "kernel of experts; torch_mm_mxfp8 computes them in MXFP8",
     .support = kNotTrainable,
     .neutral = "torch te gmm torch_mm",
     .instead = "use torch_mm"},
    NoEffect(ChoiceKey("dispatcher", "torch", "torch deepep hybridep uccl_ep mok",
                       "how tokens reach their experts")),
    NoEffect(CountKey("dispatcher_num_sms", "20", "SMs", "that dispatch")),
    NoEffect(BoolKey("dispatcher_share_token_dispatcher", "true", "one dispatcher for all layers")),
    NoEffect(BoolKey("dispatcher_async_dispatch", "false", "dispatch beside other work")),
    NotTrainable(BoolKey("fake_balanced_gate", "false", "route evenly, for benchmarks"),
                 "use false"),
    NotTrainable(NumberKey("fake_gate_noise", "0.0", "how uneven fake_balanced_gate is"),
                 "use 0.0"),
    NoEffect(BoolKey("enable_hf_state_dict_adapter", "true",
                     "read and write the names of Hugging Face checkpoints; always so")),
    NoEffect(BoolKey("enable_fsdp_optimizations", "false", "gather experts less often")),
    NoEffect(BoolKey("enable_deepep", "", "of older recipes: dispatcher deepep")),
    NotTrainable(SectionKey("te_fp8", kTeFp8Section, "FP8 in linear layers"), "use null"),
    DtypeKey("gate_precision", "", "dtype of the router's logits; null: the model's"),
    NoEffect(BoolKey("compile_attn", "false", "compile the attention's Python")),
    NoEffect(SectionKey("cuda_graph", kCudaGraphSection, "record kernels and replay them")),
    NoEffect(SectionKey("mok", kMokSection, "sizes of the dispatcher mok")),
    NoEffect(BoolKey("fused_rope", "false", "rotate queries and keys in one kernel")),
    NoEffect(BoolKey("fused_swiglu", "false", "gate and activation in one kernel")),
    NoEffect(BoolKey("mot_grouped", "false", "the layers of both modes in one kernel")),
};
constexpr Part kBackends[] = {
    {.targets = "nemo_automodel.components.models.common.BackendConfig "
                "nemo_automodel.components.models.common.utils.BackendConfig "
                "nemo_automodel.components.models.bagel.configuration.BagelBackendConfig",
     .name = "backend"},
};
constexpr Section kBackendSection = {
    .keys = kBackendKeys, .parts = kBackends, .default_part = "backend"};

// ---- model.config: text is a hub id; a map names the config class and lays its other keys over
// config.json.

constexpr Key kConfigKeys[] = {
    NoEffect(TargetKey("the config class; config.json says which it is")),
    Naming(Names::kModel, TextKey("pretrained_model_name_or_path",
                                  "hub id or directory of the config.json to begin with")),
    Naming(Names::kModel, TextKey("name_or_path", "as pretrained_model_name_or_path")),
    NoEffect(BoolKey("trust_remote_code", "false", "no Python of a model is ever run")),
};
constexpr Part kConfigs[] = {
    {.targets = "transformers.AutoConfig.from_pretrained "
                "nemo_automodel.components.models.deepseek_v4.config.DeepseekV4Config."
                "from_pretrained "
                "nemo_automodel.components.models.deepseek_v4.config.DeepseekV4Config "
                "nemo_automodel.components.models.deepseek_v32.config.DeepseekV32Config."
                "from_pretrained "
                "nemo_automodel.components.models.kimi_linear.config.KimiLinear48BConfig."
                "from_pretrained "
                "nemo_automodel.components.models.mimo_v2_flash.config.MiMoV2FlashConfig."
                "from_pretrained "
                "transformers.models.qwen3_moe.configuration_qwen3_moe.Qwen3MoeConfig "
                "transformers.models.glm4_moe_lite.configuration_glm4_moe_lite.Glm4MoeLiteConfig",
     .name = "config"},
};
constexpr Section kConfigSection = {.keys = kConfigKeys,
                                    .parts = kConfigs,
                                    .default_part = "config",
                                    .open = true,
                                    .also = &kHfConfigSection};
constexpr Section kTextConfigSection = {.open = true, .also = &kHfConfigSection};

constexpr Key kFreezeKeys[] = {
    NoEffect(BoolKey("freeze_vision_tower", "true", "pictures")),
    NoEffect(BoolKey("freeze_audio_tower", "false", "sound")),
    NotTrainable(BoolKey("freeze_language_model", "false", "the text part"), "use false"),
    NoEffect(BoolKey("freeze_video_embedder", "false", "video")),
    NoEffect(BoolKey("freeze_embeddings", "false",
                     "embeddings; read of draft models alone, as recipe_args.freeze_embeddings")),
};

constexpr Key kPipelineSpecKeys[] = {
    TextKey("transformer_cls", "class of the part that is trained"),
    TextKey("subfolder", "directory of its weights", "transformer"),
    BoolKey("load_full_pipeline", "false", "load the other parts, too"),
};
constexpr Section kPipelineSpecSection = {.keys = kPipelineSpecKeys};

// ---- model

constexpr Key kModelKeys[] = {
    {.name = "_target_", .means = "the loader, by its Python name: from_pretrained or from_config"},
    {.name = "pretrained_model_name_or_path",
     .nullable = true,
     .means = "hub id or directory of the model; the directory must hold config.json and weights",
     .names = Names::kModel},
    {.name = "config",
     .type = kPart,
     .nullable = true,
     .means = "for from_config: where config.json is, and values laid over it",
     .section = &kConfigSection},
    {.name = "torch_dtype",
     .type = kDtype,
     .nullable = true,
     .fallback = "auto",
     .means = "of the weights that are trained; auto: the checkpoint's"},
    {.name = "dtype", .type = kDtype, .nullable = true, .means = "as torch_dtype"},
    {.name = "attn_implementation",
     .nullable = true,
     .means = "attention kernel; results are the same"},
    NoEffect(BoolKey("trust_remote_code", "false", "no Python of a model is ever run")),
    {.name = "cache_dir", .nullable = true, .means = "of the Hugging Face cache"},
    {.name = "chat_template",
     .nullable = true,
     .means = "instead of the tokenizer's",
     .names = Names::kTemplate},
    SectionKey("backend", kBackendSection, "kernels; the machine chooses them"),
    SectionKey("text_config", kTextConfigSection,
               "values laid over the text part of a multimodal config.json"),
    SectionKey("freeze_config", kFreezeSection,
               "towers of a multimodal model that are not trained"),
    NoEffect(BoolKey("output_hidden_states", "false", "return every layer's output; not needed")),
    NoEffect(BoolKey("use_liger_kernel", "true", "faster kernels of a library")),
    NoEffect(BoolKey("use_sdpa_patching", "true", "the fastest attention kernel")),
    NoEffect(TextsKey("sdpa_method", "attention kernels that may be used")),
    NoEffect(BoolKey("force_hf", "false", "the Hugging Face library's own model code")),
    NoEffect(PartKey("tokenizer", kTokenizerSection, "read from `tokenizer` and the data set")),
    {.name = "load_base_model",
     .type = kBool,
     .nullable = true,
     .fallback = "true",
     .means = "false: weights are random",
     .support = kNotTrainable,
     .instead = "use from_config for random weights"},
    NotTrainable(NumberKey("mtp_loss_scaling_factor", "", "weight of the loss of further tokens"),
                 "leave it out"),
    NotTrainable(BoolKey("mtp_use_repeated_layer", "false",
                         "one layer, used again, predicts all further tokens"),
                 "leave it out"),
    // Of diffusion language models.
    NotTrainable(TextKey("dlm_paradigm", "how a text is unmasked: block_diff, …")),
    NotTrainable(CountKey("block_size", "", "tokens", "unmasked together")),
    NotTrainable(CountKey("canvas_length", "", "tokens", "of the text that is unmasked")),
    NotTrainable(BoolKey("self_conditioning", "false", "show the model its last guess")),
    NotTrainable(BoolKey("freeze_router", "false", "routers of experts are not trained")),
};

constexpr Key kMultimodalKeys[] = {
    // A draft model beside the model (Gemma 4).
    Naming(Names::kModel, TextKey("drafter_path", "hub id or directory of the draft model")),
    NumberKey("drafter_loss_weight", "", "weight of the draft model's loss"),
    CountKey("drafter_num_steps", "", "tokens", "that the draft model predicts"),
    BoolKey("base_activation_checkpointing", "false", "recompute activations of the model"),
    // Pictures understood and made (BAGEL).
    TextKey("stage", "of the training: 2 trains both modes"),
    TextKey("init_mode", "checkpoint, or hf_backbones: parts from their own checkpoints"),
    Naming(Names::kModel, TextKey("llm_path", "hf_backbones: the language model")),
    Naming(Names::kModel, TextKey("vit_path", "hf_backbones: the vision tower")),
    Naming(Names::kInput, TextKey("vae_path", "file of the picture encoder")),
    TextKey("layer_module", "class of a decoder layer"),
    BoolKey("llm_qk_norm", "true", "normalise queries and keys"),
    BoolKey("copy_init_moe", "true", "the second mode's layers begin as copies of the first's"),
    CountKey("max_latent_size", "64", "latents", "along a side of a picture"),
    SizeKey("vae_encode_micro_batch_size", "1", "pictures", "encoded at a time; 0: all"),
};
constexpr Key kEncoderKeys[] = {
    ChoiceKey("pooling", "avg", "avg cls last weighted_avg colbert",
              "how a text becomes one vector"),
    BoolKey("l2_normalize", "true", "vectors have length 1"),
    NumberKey("temperature", "1.0", "scores are divided by it"),
    CountKey("num_labels", "1", "classes", "scores of a pair"),
    TextKey("extract_submodel", "the part of the checkpoint that is used: language_model"),
    BoolKey("do_distributed_inbatch_negative", "false", "passages of other ranks count as wrong"),
    BoolKey("detach_distributed_inbatch_negatives", "false", "no gradient through those"),
    IntsKey("capture_layers", "", "layers whose output is compared with the teacher's"),
    CountKey("teacher_hidden_size", "", "features", "width of the teacher's vectors"),
};
constexpr Key kClassifierKeys[] = {
    CountKey("num_labels", "2", "classes", "that texts are sorted into"),
};
constexpr Key kGpt2Keys[] = {
    CountKey("vocab_size", "50257", "ids", "size of the vocabulary"),
    CountKey("n_positions", "1024", "tokens", "the longest sequence"),
    CountKey("n_embd", "768", "features", "width of the residual stream"),
    CountKey("n_layer", "12", "layers", "decoder layers"),
    CountKey("n_head", "12", "heads", "of attention"),
    SizeKey("bos_token_id", "50256", "", "id that begins a text"),
    SizeKey("eos_token_id", "50256", "", "id that ends a text"),
};
// Models that make pictures and videos: named by the recipe's kind, not by a target.
constexpr Key kDiffusionKeys[] = {
    ChoiceKey("mode", "finetune", "finetune pretrain",
              "begin with the weights, or with random ones"),
    TextKey("model_type", "family: flux, flux2, hunyuan, ltx2, qwen_image_edit, wan"),
    TextKey("attention_backend", "attention kernel: flash, flash_varlen, native"),
    BoolKey("optimize_hunyuan_flash_varlen_mask", "false", "a faster mask of flash_varlen"),
    DtypeKey("compute_dtype", "bfloat16", "dtype of the arithmetic"),
    TextKey("stage", "of Wan 2.2: high_noise or low_noise"),
    ShareKey("boundary_ratio", "0.875", "share of the noise at which the stages meet"),
    SectionKey("pipeline_spec", kPipelineSpecSection, "pretrain: what the model is made of"),
    BoolKey("fuse_qkv_projections", "false", "queries, keys and values in one matrix"),
    BoolKey("transformer_engine_linear", "false", "linear layers of another library"),
    BoolKey("transformer_engine_fp8", "false", "FP8 in linear layers"),
    TextKey("transformer_engine_fp8_recipe", "how scales are chosen", "delayed"),
    CountKey("transformer_engine_fp8_amax_history_len", "1024", "steps", "delayed: looked back at"),
    ChoiceKey("transformer_engine_fp8_amax_compute_algo", "max", "max most_recent",
              "delayed: which of them counts"),
    // Making pictures with what was trained.
    Naming(Names::kInput, TextKey("checkpoint", "directory of trained weights")),
    Naming(Names::kInput, TextKey("checkpoint_high_noise", "of the stage high_noise")),
    Naming(Names::kInput, TextKey("checkpoint_low_noise", "of the stage low_noise")),
    Naming(Names::kInput, TextKey("lora_weights", "file or directory of an adapter")),
    TextKey("lora_adapter_name", "what it is called", "default"),
    NumberKey("lora_scale", "1.0", "the adapter's part is multiplied by it"),
};

constexpr Part kModels[] = {
    {.targets = "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained "
                "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_pretrained "
                "transformers.AutoModelForCausalLM.from_pretrained "
                "NeMoAutoModelForCausalLM.from_pretrained",
     .name = "from_pretrained"},
    {.targets = "nemo_automodel.NeMoAutoModelForCausalLM.from_config "
                "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_config "
                "transformers.AutoModelForCausalLM.from_config "
                "NeMoAutoModelForCausalLM.from_config",
     .name = "from_config"},
    {.targets = "nemo_automodel.NeMoAutoModelForImageTextToText.from_pretrained "
                "nemo_automodel.NeMoAutoModelForImageTextToText.from_config "
                "nemo_automodel.NeMoAutoModelForMultimodalLM.from_pretrained "
                "nemo_automodel.components.models.gemma4_drafter.composite.Gemma4WithDrafter."
                "from_pretrained",
     .name = "multimodal",
     .support = kNotTrainable,
     .keys = kMultimodalKeys},
    {.targets = "nemo_automodel.NeMoAutoModelForSequenceClassification.from_pretrained",
     .name = "classifier",
     .support = kNotTrainable,
     .keys = kClassifierKeys},
    {.targets = "nemo_automodel.NeMoAutoModelBiEncoder.from_pretrained "
                "nemo_automodel.NeMoAutoModelCrossEncoder.from_pretrained "
                "nemo_automodel._transformers.retrieval.RetrieverStudentWithProjection.build "
                "nemo_automodel._transformers.retrieval.RetrieverTeacherEmbeddingEncoder.build",
     .name = "encoder",
     .support = kNotTrainable,
     .keys = kEncoderKeys},
    {.targets = "nemo_automodel.NeMoAutoModelForSeq2SeqLM.from_pretrained "
                "transformers.AutoModel.from_pretrained",
     .name = "other",
     .support = kNotTrainable},
    {.targets = "nemo_automodel.components.models.gpt2.build_gpt2_model",
     .name = "gpt2",
     .support = kNotTrainable,
     .keys = kGpt2Keys},
    {.targets = "diffusion", .name = "diffusion", .support = kNotTrainable, .keys = kDiffusionKeys},
};

// ---- peft

constexpr Key kPeftKeys[] = {
    {.name = "target_modules",
     .type = kTexts,
     .nullable = true,
     .means = "modules that get an adapter: full names, last components, or patterns with *"},
    {.name = "exclude_modules",
     .type = kTexts,
     .nullable = true,
     .means = "instead of target_modules: all linear modules but these"},
    {.name = "match_all_linear",
     .type = kBool,
     .fallback = "false",
     .means = "every linear module, lm_head included"},
    {.name = "dim", .type = kInt, .fallback = "8", .least = 1, .means = "rank of the adapters"},
    {.name = "alpha",
     .type = kFloat,
     .fallback = "32",
     .least = 0,
     .means = "adapters are scaled by alpha / dim"},
    {.name = "dropout",
     .type = kFloat,
     .fallback = "0.0",
     .least = 0,
     .most = 1,
     .means = "chance that a value is dropped in training"},
    {.name = "dropout_position",
     .type = kChoice,
     .fallback = "post",
     .choices = "pre post",
     .means = "before or after the adapter"},
    {.name = "lora_A_init",
     .fallback = "xavier",
     .means = "xavier; anything else: uniform (Kaiming, a = √5)"},
    {.name = "lora_dtype",
     .type = kDtype,
     .nullable = true,
     .means = "of the adapters; null: the base's"},
    {.name = "adapter_path",
     .nullable = true,
     .means = "a PEFT adapter directory to begin from",
     .names = Names::kInput},
    {.name = "use_dora",
     .type = kBool,
     .fallback = "false",
     .means = "magnitude and direction apart (DoRA)",
     .support = kNotTrainable},
    {.name = "use_triton",
     .type = kBool,
     .fallback = "false",
     .means = "a GPU kernel; results are the same",
     .support = kNoEffect},
    {.name = "use_memory_efficient_lora",
     .type = kBool,
     .fallback = "true",
     .means = "a way to compute adapters; results are the same",
     .support = kNoEffect},
    {.name = "moe_rank_scaling",
     .type = kBool,
     .fallback = "false",
     .means = "divide dim by the experts a token visits",
     .support = kNotTrainable},
};
constexpr Part kPefts[] = {
    {.targets = "nemo_automodel.components._peft.lora.PeftConfig",
     .name = "lora",
     .keys = kPeftKeys},
};
constexpr Key kPeftCommonKeys[] = {
    {.name = "_target_", .means = "PeftConfig"},
};

// ---- quantization

constexpr Key kQuantizationKeys[] = {
    kUnusedTarget,
    {.name = "load_in_4bit",
     .type = kBool,
     .fallback = "false",
     .means = "keep the frozen base in 4 bits (QLoRA)",
     .support = kNotTrainable},
    {.name = "load_in_8bit",
     .type = kBool,
     .fallback = "false",
     .means = "keep the frozen base in 8 bits",
     .support = kNotTrainable},
    {.name = "bnb_4bit_compute_dtype",
     .type = kDtype,
     .fallback = "bfloat16",
     .means = "of the arithmetic"},
    {.name = "bnb_4bit_use_double_quant",
     .type = kBool,
     .fallback = "true",
     .means = "quantise the scales as well"},
    {.name = "bnb_4bit_quant_type",
     .type = kChoice,
     .fallback = "nf4",
     .choices = "nf4 fp4",
     .means = "code book"},
    {.name = "bnb_4bit_quant_storage",
     .type = kDtype,
     .fallback = "bfloat16",
     .means = "dtype of the storage"},
};

}  // namespace

const Section kFreezeSection = {.keys = kFreezeKeys};
const Section kModelSection = {.keys = kModelKeys,
                               .parts = kModels,
                               .default_part = "from_pretrained",
                               .open = true,
                               .also = &kHfConfigSection};
const Section kPeftSection = {.keys = kPeftCommonKeys, .parts = kPefts, .default_part = "lora"};
const Section kQuantizationSection = {.keys = kQuantizationKeys};

}  // namespace am::recipe
