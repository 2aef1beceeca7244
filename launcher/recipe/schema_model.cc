// Which model, and what is put on it.
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

// ---- model.backend: kernels of the natively implemented models. Ours are chosen by the machine;
// results are the same.

constexpr Key kTeFp8Keys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "recipe",
     .type = kChoice,
     .fallback = "current",
     .choices = "current block mxfp8",
     .means = "how FP8 scales are chosen"},
};
constexpr Section kTeFp8Section = {.keys = kTeFp8Keys};

constexpr Key kBackendKeys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "attn",
     .type = kChoice,
     .nullable = true,
     .choices = "te sdpa torch flex eager tilelang cudnn magi",
     .means = "attention kernel",
     .support = kNoEffect},
    {.name = "linear",
     .type = kChoice,
     .nullable = true,
     .choices = "torch te quack",
     .means = "linear kernel",
     .support = kNoEffect},
    {.name = "rms_norm",
     .type = kChoice,
     .nullable = true,
     .choices = "torch torch_fp32 te quack",
     .means = "norm kernel",
     .support = kNoEffect},
    {.name = "rope",
     .type = kChoice,
     .nullable = true,
     .choices = "torch quack",
     .means = "rotary kernel",
     .support = kNoEffect},
    {.name = "rope_fusion", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "experts",
     .type = kChoice,
     .nullable = true,
     .choices = "torch te gmm torch_mm torch_mm_mxfp8",
     .means = "expert kernel",
     .support = kNotTrainable,
     .neutral = "torch te gmm torch_mm",
     .instead = "use torch_mm"},
    {.name = "dispatcher",
     .type = kChoice,
     .nullable = true,
     .choices = "torch deepep hybridep uccl_ep mok",
     .means = "how tokens reach experts",
     .support = kNoEffect},
    {.name = "dispatcher_num_sms", .type = kInt, .nullable = true, .support = kNoEffect},
    {.name = "dispatcher_share_token_dispatcher", .type = kBool, .support = kNoEffect},
    {.name = "dispatcher_async_dispatch", .type = kBool, .support = kNoEffect},
    {.name = "fake_balanced_gate",
     .type = kBool,
     .fallback = "false",
     .means = "route evenly, for benchmarks",
     .support = kNotTrainable},
    {.name = "fake_gate_noise",
     .type = kFloat,
     .fallback = "0",
     .means = "of fake_balanced_gate",
     .support = kNotTrainable},
    {.name = "enable_hf_state_dict_adapter", .type = kBool, .support = kNoEffect},
    {.name = "enable_fsdp_optimizations", .type = kBool, .support = kNoEffect},
    {.name = "enable_deepep", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "te_fp8",
     .type = kSection,
     .nullable = true,
     .means = "FP8 in linear layers",
     .support = kNotTrainable,
     .section = &kTeFp8Section},
    {.name = "gate_precision", .type = kDtype, .nullable = true, .means = "of the router's logits"},
    {.name = "compile_attn", .type = kBool, .support = kNoEffect},
    {.name = "cuda_graph", .type = kFree, .nullable = true, .support = kNoEffect},
    {.name = "mok", .type = kFree, .nullable = true, .support = kNoEffect},
    {.name = "fused_rope", .type = kBool, .support = kNoEffect},
    {.name = "fused_swiglu", .type = kBool, .support = kNoEffect},
    {.name = "mot_grouped", .type = kBool, .support = kNoEffect},
};
constexpr Section kBackendSection = {.keys = kBackendKeys};

// ---- model.config: text is a hub id; a map names the config class and lays its other keys over
// config.json.

constexpr Key kConfigKeys[] = {
    {.name = "_target_",
     .means = "the config class; config.json says which it is",
     .support = kNoEffect},
    {.name = "pretrained_model_name_or_path",
     .nullable = true,
     .means = "hub id or directory of the config.json to begin with"},
    {.name = "name_or_path", .nullable = true, .means = "as pretrained_model_name_or_path"},
    {.name = "trust_remote_code", .type = kBool, .nullable = true, .support = kNoEffect},
};
constexpr Section kConfigSection = {.keys = kConfigKeys, .open = true};

constexpr Key kFreezeKeys[] = {
    {.name = "freeze_vision_tower", .type = kBool, .fallback = "true", .support = kNoEffect},
    {.name = "freeze_audio_tower", .type = kBool, .fallback = "false", .support = kNoEffect},
    {.name = "freeze_language_model", .type = kBool, .fallback = "false", .support = kNotTrainable},
    {.name = "freeze_video_embedder", .type = kBool, .fallback = "false", .support = kNoEffect},
    {.name = "freeze_embeddings", .type = kBool, .fallback = "false", .support = kNoEffect},
};
constexpr Section kFreezeSection = {.keys = kFreezeKeys};

// ---- model

constexpr Key kModelKeys[] = {
    {.name = "_target_", .means = "the loader, by its Python name: from_pretrained or from_config"},
    {.name = "pretrained_model_name_or_path",
     .nullable = true,
     .means = "hub id or directory of the model; the directory must hold config.json and weights"},
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
    {.name = "trust_remote_code",
     .type = kBool,
     .nullable = true,
     .means = "no Python of a model is ever run",
     .support = kNoEffect},
    {.name = "cache_dir", .nullable = true, .means = "of the Hugging Face cache"},
    {.name = "chat_template", .nullable = true, .means = "instead of the tokenizer's"},
    {.name = "backend",
     .type = kSection,
     .nullable = true,
     .means = "kernels",
     .section = &kBackendSection},
    {.name = "text_config",
     .type = kFree,
     .nullable = true,
     .means = "values laid over the text part of a multimodal config.json"},
    {.name = "freeze_config",
     .type = kSection,
     .nullable = true,
     .means = "towers of a multimodal model that are not trained",
     .section = &kFreezeSection},
    {.name = "num_labels",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .means = "classes of a sequence classifier",
     .support = kNotTrainable},
    {.name = "output_hidden_states", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "use_liger_kernel", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "use_sdpa_patching", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "sdpa_method", .type = kTexts, .nullable = true, .support = kNoEffect},
    {.name = "force_hf", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "tokenizer", .type = kFree, .nullable = true, .support = kNoEffect},
    {.name = "load_base_model",
     .type = kBool,
     .nullable = true,
     .means = "false: weights are random",
     .support = kNotTrainable,
     .neutral = "true"},
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
     .open = true},
    {.targets = "nemo_automodel.NeMoAutoModelForSequenceClassification.from_pretrained "
                "nemo_automodel.NeMoAutoModelForSeq2SeqLM.from_pretrained "
                "nemo_automodel.NeMoAutoModelBiEncoder.from_pretrained "
                "nemo_automodel.NeMoAutoModelCrossEncoder.from_pretrained "
                "nemo_automodel._transformers.retrieval.RetrieverStudentWithProjection.build "
                "nemo_automodel._transformers.retrieval.RetrieverTeacherEmbeddingEncoder.build "
                "transformers.AutoModel.from_pretrained "
                "nemo_automodel.components.models.gpt2.build_gpt2_model",
     .name = "other",
     .support = kNotTrainable,
     .open = true},
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
    {.name = "adapter_path", .nullable = true, .means = "a PEFT adapter directory to begin from"},
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
    {.name = "use_memory_efficient_lora", .type = kBool, .fallback = "true", .support = kNoEffect},
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
    {.name = "_target_", .support = kNoEffect},
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

const Section kModelSection = {
    .keys = kModelKeys, .parts = kModels, .default_part = "from_pretrained", .open = true};
const Section kPeftSection = {.keys = kPeftCommonKeys, .parts = kPefts, .default_part = "lora"};
const Section kQuantizationSection = {.keys = kQuantizationKeys};

}  // namespace am::recipe
