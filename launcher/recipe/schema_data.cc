// What is read, how it is batched and packed.
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

// ---- dataset, validation_dataset*

constexpr Key kTokenizerKeys[] = {
    {.name = "_target_", .support = kNoEffect},
    {.name = "pretrained_model_name_or_path",
     .nullable = true,
     .means = "directory of the tokenizer; null: the model's"},
};
constexpr Section kTokenizerSection = {.keys = kTokenizerKeys, .open = true};

constexpr Key kSeqLength = {.name = "seq_length",
                            .type = kInt,
                            .nullable = true,
                            .least = 1,
                            .unit = "tokens",
                            .means = "the longest sample"};
constexpr Key kLimit = {.name = "limit_dataset_samples",
                        .type = kInt,
                        .nullable = true,
                        .least = 1,
                        .unit = "samples",
                        .means = "only the first so many"};
constexpr Key kPadding = {.name = "padding",
                          .type = kChoice,
                          .nullable = true,
                          .fallback = "do_not_pad",
                          .choices = "do_not_pad=false=no=off longest=true=yes=on max_length",
                          .means = "max_length pads every sample to seq_length"};
constexpr Key kTruncation = {
    .name = "truncation",
    .type = kChoice,
    .nullable = true,
    .fallback = "do_not_truncate",
    .choices = "do_not_truncate=false=no=off longest_first=true=yes=on only_first only_second",
    .means = "cut samples that are longer than seq_length instead of refusing them"};
constexpr Key kAnswerOnly = {.name = "answer_only_loss_mask",
                             .type = kBool,
                             .fallback = "true",
                             .means = "only the answer's tokens carry a label"};
constexpr Key kChatTemplate = {.name = "chat_template",
                               .nullable = true,
                               .means = "Jinja text or a file, instead of the tokenizer's"};

constexpr Key kSquadKeys[] = {
    {.name = "dataset_name",
     .fallback = "squad",
     .means = "hub id, directory or file of SQuAD-form questions (json, jsonl)"},
    {.name = "path_or_dataset", .nullable = true, .means = "as dataset_name"},
    kSeqLength,
    kLimit,
    kPadding,
    kTruncation,
    kAnswerOnly,
    kChatTemplate,
    {.name = "lossy",
     .type = kBool,
     .fallback = "false",
     .means = "replace invalid UTF-8 instead of refusing it"},
};
constexpr Key kMockKeys[] = {
    {.name = "vocab_size",
     .type = kInt,
     .nullable = true,
     .fallback = "1024",
     .least = 2,
     .means = "ids are drawn below it"},
    {.name = "seq_len",
     .type = kInt,
     .nullable = true,
     .fallback = "1024",
     .least = 2,
     .unit = "tokens",
     .means = "length of every sample"},
    {.name = "num_samples",
     .type = kInt,
     .nullable = true,
     .fallback = "1000000",
     .least = 1,
     .unit = "samples",
     .means = "how many there are"},
    {.name = "batch_size",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "samples",
     .means = "derived: local_batch_size",
     .support = kNoEffect},
    {.name = "seed", .type = kInt, .nullable = true, .means = "of the ids"},
};
constexpr Key kHellaSwagKeys[] = {
    {.name = "path_or_dataset", .means = "hub id or directory"},
    {.name = "num_samples_limit",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "samples",
     .means = "only the first so many"},
    {.name = "pad_to_max_length",
     .type = kBool,
     .fallback = "true",
     .means = "pad to the longest sample of the set"},
    kSeqLength,
};
constexpr Key kColumnMappedKeys[] = {
    {.name = "path_or_dataset_id", .type = kTexts, .means = "hub id, directory or files"},
    {.name = "column_mapping",
     .type = kFree,
     .means = "context, question and answer: which column each is"},
    {.name = "name", .nullable = true, .means = "configuration of a hub data set"},
    {.name = "use_hf_chat_template",
     .type = kBool,
     .fallback = "false",
     .means = "render as a chat"},
    kSeqLength,
    kLimit,
    kPadding,
    kTruncation,
    kAnswerOnly,
    kChatTemplate,
    {.name = "start_of_turn_token", .nullable = true, .support = kNoEffect},
    {.name = "repeat_on_exhaustion", .type = kBool, .fallback = "true", .support = kNoEffect},
};
constexpr Key kChatKeys[] = {
    {.name = "path_or_dataset_id", .type = kTexts, .means = "hub id, directory or files"},
    {.name = "dataset_name", .nullable = true, .means = "as path_or_dataset_id"},
    {.name = "name", .nullable = true, .means = "configuration of a hub data set"},
    {.name = "shuffle_seed", .type = kInt, .nullable = true, .means = "shuffle before slicing"},
    {.name = "mask_reasoning_content",
     .type = kBool,
     .fallback = "false",
     .means = "reasoning carries no label"},
    {.name = "mask_history",
     .type = kBool,
     .fallback = "false",
     .means = "only the last answer carries labels"},
    {.name = "unshifted", .type = kBool, .fallback = "false", .means = "labels are the ids"},
    {.name = "skip_invalid_samples",
     .type = kBool,
     .fallback = "false",
     .means = "leave out rows that cannot be rendered"},
    kSeqLength,
    kLimit,
    kPadding,
    kTruncation,
    kChatTemplate,
};

constexpr Part kDatasets[] = {
    {.targets = "nemo_automodel.components.datasets.llm.squad.make_squad_dataset "
                "nemo_automodel.datasets.llm.squad.make_squad_dataset",
     .name = "squad",
     .keys = kSquadKeys},
    {.targets = "nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset",
     .name = "mock",
     .keys = kMockKeys},
    {.targets = "nemo_automodel.components.datasets.llm.hellaswag.HellaSwag",
     .name = "hellaswag",
     .support = kNotTrainable,
     .keys = kHellaSwagKeys},
    {.targets = "nemo_automodel.components.datasets.llm.column_mapped_text_instruction_dataset."
                "ColumnMappedTextInstructionDataset "
                "nemo_automodel.components.datasets.llm."
                "column_mapped_text_instruction_iterable_dataset."
                "ColumnMappedTextInstructionIterableDataset",
     .name = "column_mapped",
     .support = kNotTrainable,
     .keys = kColumnMappedKeys,
     .open = true},
    {.targets = "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset",
     .name = "chat",
     .support = kNotTrainable,
     .keys = kChatKeys},
    {.targets = "nemo_automodel.components.datasets.llm.agent_chat.make_agent_chat_dataset "
                "nemo_automodel.components.datasets.llm.xlam.make_xlam_dataset "
                "nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretraining "
                "nemo_automodel.components.datasets.llm.nanogpt_dataset.NanogptDataset "
                "nemo_automodel.components.datasets.llm.mock.build_unpacked_dataset "
                "nemo_automodel.components.datasets.llm.mock_prefix_tree."
                "build_mock_rollout_dataset "
                "nemo_automodel.components.datasets.llm.seq2seq.make_seq2seq_dataset "
                "nemo_automodel.components.datasets.llm.seq_cls.GLUE_MRPC "
                "nemo_automodel.components.datasets.llm.retrieval_dataset.RetrievalDatasetConfig "
                "nemo_automodel.components.datasets.llm.make_retrieval_dataset",
     .name = "other_text",
     .support = kNotTrainable,
     .open = true},
    {.targets = "nemo_automodel.components.datasets.vlm.datasets.make_medpix_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_cord_v2_dataset "
                "nemo_automodel.components.datasets.vlm.datasets."
                "make_shopify_product_catalogue_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_rdr_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_tulu3_dataset "
                "nemo_automodel.components.datasets.vlm.datasets."
                "make_tulu3_magicoder_text_mix_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_meta_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_cv17_dataset "
                "nemo_automodel.components.datasets.vlm.datasets.make_llava_onevision_dataset "
                "nemo_automodel.components.datasets.vlm.mock.build_mock_vlm_dataset "
                "nemo_automodel.components.datasets.audio.datasets.make_hf_audio_asr_dataset "
                "nemo_automodel.components.datasets.audio.datasets.make_cv17_dataset "
                "nemo_automodel.components.datasets.audio.multi_en.make_multi_en_asr_dataset",
     .name = "other_media",
     .support = kNotTrainable,
     .open = true},
};
constexpr Key kDatasetKeys[] = {
    {.name = "_target_", .means = "the data set, by its Python name"},
    {.name = "split",
     .type = kFree,
     .nullable = true,
     .fallback = "train",
     .means = "train, validation, …; of a directory, the file of that name"},
    {.name = "tokenizer",
     .type = kSection,
     .nullable = true,
     .means = "instead of the model's",
     .section = &kTokenizerSection},
};

// ---- dataloader, validation_dataloader

constexpr Key kCollateKeys[] = {
    {.name = "_target_", .means = "how samples become a batch, by its Python name"},
    {.name = "pad_seq_len_divisible",
     .type = kInt,
     .nullable = true,
     .least = 1,
     .unit = "tokens",
     .means = "no padding is computed here",
     .support = kNoEffect},
};
constexpr Part kCollates[] = {
    {.targets = "nemo_automodel.components.datasets.utils.default_collater "
                "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater",
     .name = "default"},
    {.targets = "*", .name = "other", .support = kNotTrainable, .open = true},
};
constexpr Section kCollateSection = {
    .keys = kCollateKeys, .parts = kCollates, .default_part = "default"};

constexpr Key kDataloaderKeys[] = {
    {.name = "_target_", .means = "StatefulDataLoader", .support = kNoEffect},
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
    {.name = "pin_memory", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "persistent_workers", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "prefetch_factor", .type = kInt, .nullable = true, .support = kNoEffect},
    {.name = "dataloader_type",
     .nullable = true,
     .means = "of Megatron data sets",
     .support = kNotTrainable},
    {.name = "dataset",
     .type = kFree,
     .nullable = true,
     .means = "of retrieval recipes",
     .support = kNotTrainable},
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
    {.name = "num_proc", .type = kInt, .nullable = true, .support = kNoEffect},
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
    {.name = "split_across_pack", .type = kBool, .nullable = true, .support = kNoEffect},
    // Of multimodal recipes.
    {.name = "pack_size",
     .type = kInt,
     .nullable = true,
     .fallback = "0",
     .support = kNotTrainable},
    {.name = "packing_ratio", .type = kFloat, .nullable = true, .support = kNoEffect},
    {.name = "balance_media_tokens", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "collate_max_length", .type = kInt, .nullable = true, .support = kNoEffect},
    {.name = "attn_implementation", .nullable = true, .support = kNoEffect},
    {.name = "packing_format",
     .type = kChoice,
     .nullable = true,
     .choices = "neat thd",
     .support = kNoEffect},
    {.name = "pretokenize", .type = kBool, .nullable = true, .support = kNoEffect},
    {.name = "max_length", .type = kInt, .nullable = true, .support = kNoEffect},
    {.name = "post_tokenize_hook_fn", .nullable = true, .support = kNotTrainable},
};

}  // namespace

const Section kDatasetSection = {.keys = kDatasetKeys, .parts = kDatasets, .default_part = "squad"};
const Section kDataloaderSection = {.keys = kDataloaderKeys};
const Section kPackedSequenceSection = {.keys = kPackedKeys};

}  // namespace am::recipe
