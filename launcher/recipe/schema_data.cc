// How what is read becomes ids, batches and packs.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

// ---- tokenizer, dataset.tokenizer

constexpr Key kTokenizerKeys[] = {
    TargetKey("the class; tokenizer.json says which tokenizer it is"),
    Naming(Names::kModel, TextKey("pretrained_model_name_or_path",
                                  "directory of the tokenizer; null: the model's")),
    NoEffect(BoolKey("trust_remote_code", "false", "no Python of a model is ever run")),
    NotTrainable(ChoiceKey("padding_side", "right", "left right", "where batches are padded")),
    NotTrainable(ChoiceKey("truncation_side", "right", "left right", "the end that is cut off")),
    NotTrainable(BoolKey("add_bos_token", "", "begin every text with the model's first token")),
    NotTrainable(BoolKey("add_eos_token", "", "end every text with the model's last token")),
    NoEffect(BoolKey("force_hf", "false", "the class of the Hugging Face library")),
    NoEffect(BoolKey("use_fast", "true", "tokenizer.json instead of Python")),
    CountKey("q_max_length", "", "tokens", "retrieval: the longest query"),
    CountKey("p_max_length", "", "tokens", "retrieval: the longest passage"),
    TextKey("query_prefix", "retrieval: text before each query"),
    TextKey("passage_prefix", "retrieval: text before each passage"),
    CountKey("max_input_tiles", "", "tiles", "retrieval: a picture is cut into so many at most"),
};
constexpr Part kTokenizers[] = {
    {.targets = "transformers.AutoTokenizer.from_pretrained "
                "nemo_automodel.NeMoAutoTokenizer.from_pretrained "
                "nemo_automodel._transformers.auto_tokenizer.NeMoAutoTokenizer.from_pretrained",
     .name = "auto"},
    {.targets = "nemo_automodel.components.models.llama_nemotron_vl.processor."
                "LlamaNemotronVLProcessor.from_pretrained",
     .name = "llama_nemotron_vl",
     .support = kNotTrainable},
};

// ---- dataloader, validation_dataloader

constexpr Key kPadDivisible =
    NoEffect(CountKey("pad_seq_len_divisible", "", "tokens", "no padding is computed here"));
constexpr Key kPadMultiple =
    CountKey("pad_to_multiple_of", "", "tokens", "lengths are rounded up to it");
constexpr Key kTextCollateKeys[] = {kPadDivisible};
constexpr Key kMediaCollateKeys[] = {
    kPadDivisible,
    CountKey("max_length", "", "tokens", "samples are padded to it"),
    BoolKey("drop_overlong", "false", "leave out samples that are longer than max_length"),
};
constexpr Key kPairCollateKeys[] = {
    CountKey("q_max_len", "512", "tokens", "the longest query"),
    CountKey("p_max_len", "512", "tokens", "the longest passage"),
    TextKey("query_prefix", "text before each query"),
    TextKey("passage_prefix", "text before each passage"),
    BoolKey("use_dataset_instruction", "false", "queries begin with the data set's instruction"),
    kPadMultiple,
};
constexpr Key kRerankCollateKeys[] = {
    CountKey("rerank_max_length", "512", "tokens", "the longest query with its passage"),
    TextKey("prompt_template", "how the two become one text: {query}, {passage}"),
    kPadMultiple,
};
constexpr Key kMethodCollateKeys[] = {
    TextKey("collator_fn_name", "the processor's method that makes batches"),
};
constexpr Key kCollateKeys[] = {TargetKey("how samples become a batch, by its Python name")};
constexpr Part kCollates[] = {
    {.targets = "nemo_automodel.components.datasets.utils.default_collater "
                "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater "
                "torch.utils.data.default_collate",
     .name = "default",
     .keys = kTextCollateKeys},
    {.targets = "nemo_automodel.components.datasets.llm.prefix_tree.prefix_tree_collate_fn",
     .name = "prefix_tree",
     .support = kNotTrainable},
    {.targets = "nemo_automodel.components.datasets.vlm.collate_fns.default_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.gemma4_prefix_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.nemotron_omni_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.qwen2_5_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.kimi_k25_vl_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.kimi_vl_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.llava_onevision_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.phi4_mm_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.qwen3_omni_collate_fn "
                "nemo_automodel.components.datasets.vlm.collate_fns.nemotron_parse_collate_fn "
                "nemo_automodel.components.datasets.audio.collate_fns.qwen2_5_omni_asr_collate_fn "
                "nemo_automodel.components.datasets.audio.collate_fns.qwen3_omni_asr_collate_fn "
                "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater_vlm",
     .name = "media",
     .support = kNotTrainable,
     .keys = kMediaCollateKeys},
    {.targets = "nemo_automodel.components.datasets.llm.BiEncoderCollator "
                "nemo_automodel.components.datasets.llm.BiEncoderDistillCollator",
     .name = "pairs",
     .support = kNotTrainable,
     .keys = kPairCollateKeys},
    {.targets = "nemo_automodel.components.datasets.llm.CrossEncoderCollator",
     .name = "rerank",
     .support = kNotTrainable,
     .keys = kRerankCollateKeys},
    {.targets = "nemo_automodel.components.datasets.llm.ProcessorMethodCollator",
     .name = "processor_method",
     .support = kNotTrainable,
     .keys = kMethodCollateKeys},
};
constexpr Section kCollateSection = {
    .keys = kCollateKeys, .parts = kCollates, .default_part = "default"};

constexpr Key kDataloaderKeys[] = {
    NoEffect(TargetKey("the loader's class; there is one here")),
    {.name = "batch_size",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "samples",
     .means = "as step_scheduler.local_batch_size; the two must agree where both are given"},
    {.name = "shuffle",
     .type = kBool,
     .nullable = true,
     .fallback = "true",
     .means = "a new permutation each epoch"},
    {.name = "drop_last",
     .type = kBool,
     .nullable = true,
     .fallback = "false",
     .means = "leave out the last, smaller global batch of an epoch"},
    {.name = "num_workers",
     .type = kInt,
     .nullable = true,
     .fallback = "0",
     .least = 0,
     .unit = "threads",
     .means = "that prepare samples ahead"},
    {.name = "collate_fn",
     .type = kPart,
     .nullable = true,
     .means = "how samples become a batch",
     .section = &kCollateSection},
    {.name = "group_by_length",
     .type = kBool,
     .nullable = true,
     .fallback = "false",
     .means = "batches of like length",
     .support = kNotTrainable},
    {.name = "shuffle_buffer_size",
     .type = kInt,
     .nullable = true,
     .fallback = "10000",
     .least = 1,
     .unit = "samples",
     .means = "of streamed data sets",
     .support = kNoEffect},
    NoEffect(BoolKey("pin_memory", "false", "batches in memory that a GPU reads directly")),
    NoEffect(BoolKey("persistent_workers", "false", "keep the workers from epoch to epoch")),
    NoEffect(CountKey("prefetch_factor", "", "batches", "that each worker prepares ahead")),
    NotTrainable(ChoiceKey("dataloader_type", "", "single cyclic",
                           "the order of Megatron data sets: as they lie, or shuffled by rank")),
    NotTrainable(PartKey("dataset", kDatasetSection, "retrieval: what is trained on")),
};

// ---- packed_sequence

constexpr Key kPackedKeys[] = {
    {.name = "packed_sequence_size",
     .type = kInt,
     .nullable = true,
     .fallback = "0",
     .least = 0,
     .unit = "tokens",
     .means = "length of a pack of several samples; 0: none",
     .support = kNotTrainable,
     .instead = "use 0: no padding is computed without packs either"},
    {.name = "packing_strategy",
     .type = kChoice,
     .nullable = true,
     .choices = "thd neat",
     .means = "how samples are put into packs"},
    {.name = "max_packs",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "packs",
     .means = "only the first so many"},
    NoEffect(CountKey("num_proc", "", "processes", "that pack; threads here")),
    {.name = "prepacked",
     .type = kBool,
     .nullable = true,
     .fallback = "false",
     .means = "the data set is packed already",
     .support = kNotTrainable},
    {.name = "drop_long_samples",
     .type = kBool,
     .nullable = true,
     .fallback = "true",
     .means = "leave out what is longer than a pack"},
    NoEffect(BoolKey("split_across_pack", "false", "samples are never cut at the end of a pack")),
    // Of multimodal recipes.
    NotTrainable(SizeKey("pack_size", "0", "tokens", "length of a pack with pictures; 0: none")),
    NoEffect(ShareKey("packing_ratio", "1.0", "how full a pack is before the next is begun")),
    NoEffect(BoolKey("balance_media_tokens", "false", "packs with equally many picture tokens")),
    NoEffect(CountKey("collate_max_length", "", "tokens", "batches are padded to it")),
    NoEffect(TextKey("attn_implementation", "attention kernel of packs; results are the same")),
    NoEffect(ChoiceKey("packing_format", "", "neat thd", "how packs tell their samples apart")),
    NoEffect(BoolKey("pretokenize", "false", "tokenise when the data set is built")),
    NoEffect(CountKey("max_length", "", "tokens", "longer samples are cut")),
    NotTrainable(TextKey("post_tokenize_hook_fn", "a Python function over tokenised samples")),
};

}  // namespace

const Section kTokenizerSection = {
    .keys = kTokenizerKeys, .parts = kTokenizers, .default_part = "auto"};
const Section kDataloaderSection = {.keys = kDataloaderKeys};
const Section kPackedSequenceSection = {.keys = kPackedKeys};

}  // namespace am::recipe
