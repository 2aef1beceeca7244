// What is read: text data sets, and those that other kinds of recipes draw from.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

using enum Type;
using enum Support;

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
                               .means = "Jinja text or a file, instead of the tokenizer's",
                               .names = Names::kTemplate};

constexpr Key kSquadKeys[] = {
    {.name = "dataset_name",
     .fallback = "squad",
     .means = "hub id, directory or file of SQuAD-form questions (json, jsonl)",
     .names = Names::kData},
    {.name = "path_or_dataset",
     .nullable = true,
     .means = "as dataset_name",
     .names = Names::kData},
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
// Samples that are made up.
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
    {.name = "path_or_dataset", .means = "hub id or directory", .names = Names::kData},
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
constexpr Key kColumnMappingKeys[] = {
    TextKey("context", "the column of what comes first; of a chat, the system's message"),
    TextKey("question", "the column of the question; of a chat, the user's message"),
    TextKey("answer", "the column of the answer, which is learned"),
};
constexpr Section kColumnMappingSection = {.keys = kColumnMappingKeys};
constexpr Key kColumnMappedKeys[] = {
    {.name = "path_or_dataset_id",
     .type = kTexts,
     .means = "hub id, directory or files",
     .names = Names::kData},
    {.name = "column_mapping",
     .type = kSection,
     .means = "which column is what",
     .section = &kColumnMappingSection},
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
    NoEffect(TextKey("start_of_turn_token", "not read by any loader")),
    NoEffect(BoolKey("repeat_on_exhaustion", "true",
                     "begin anew at the end of a stream; training ends by steps")),
};
constexpr Key kChatKeys[] = {
    {.name = "path_or_dataset_id",
     .type = kTexts,
     .means = "hub id, directory or files",
     .names = Names::kData},
    {.name = "dataset_name",
     .nullable = true,
     .means = "as path_or_dataset_id",
     .names = Names::kData},
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

// ---- data sets of one program of theirs each

constexpr Key kDatasetName =
    Naming(Names::kData, TextKey("dataset_name", "hub id, directory or file"));
constexpr Key kSeed = SizeKey("seed", "42", "", "of what is drawn");
constexpr Key kRevision = TextKey("revision", "branch, tag or commit of a hub data set");

constexpr Key kAgentChatKeys[] = {
    kDatasetName,
    Naming(Names::kData, TextKey("path", "as dataset_name")),
    kRevision,
    kSeqLength,
    kLimit,
    kPadding,
    kTruncation,
    kChatTemplate,
    BoolKey("filter_no_assistant", "false", "leave out conversations without an answer"),
    BoolKey("filter_overlong", "false", "leave out conversations longer than seq_length"),
    BoolKey("trim_incomplete_last_turn", "false", "cut a last turn that has no answer"),
    BoolKey("train_on_last_turn_only", "false", "only the last answer carries labels"),
    BoolKey("mask_reasoning_content", "false", "reasoning carries no label"),
    BoolKey("drop_history_reasoning_content", "false", "leave out the reasoning of former turns"),
    BoolKey("truncate_history", "false", "cut former turns first where a sample is too long"),
};
constexpr Key kToolCallKeys[] = {
    kDatasetName, kSeqLength, kLimit, kPadding, kTruncation, kChatTemplate,
};
constexpr Key kMegatronKeys[] = {
    Naming(Names::kPattern,
           TextsKey("paths", "prefixes of .bin and .idx files, or weights and prefixes by turns")),
    CountKey("seq_length", "2048", "tokens", "length of every sample"),
    kSeed,
    Naming(Names::kOutput, TextKey("index_mapping_dir", "where the shuffled index is kept")),
    TextsKey("splits_to_build", "which of train, validation and test are made"),
    CountKey("num_train_samples", "", "samples", "null: max_steps times the global batch"),
    CountKey("num_val_samples", "", "samples", "of validation"),
    CountKey("num_test_samples", "", "samples", "of the test split"),
    NoEffect(BoolKey("mmap_bin_files", "true", "map the files instead of reading them")),
    TextKey("object_storage_cache_path", "where remote files are kept"),
};
constexpr Key kNanogptKeys[] = {
    Naming(Names::kPattern, TextKey("file_pattern", "the .bin files of token ids")),
    CountKey("seq_len", "1024", "tokens", "length of every sample"),
    BoolKey("shuffle_files", "false", "read the files in a random order"),
    BoolKey("align_to_bos", "false", "samples begin at the beginning of a document"),
    SizeKey("bos_token", "50256", "", "id that begins a document"),
};
constexpr Key kUnpackedMockKeys[] = {
    CountKey("num_sentences", "", "samples", "how many there are"),
    NumberKey("mean_len", "", "mean length of a sample, in tokens"),
    NumberKey("std_len", "", "standard deviation of the length, in tokens"),
    CountKey("max_sentence_len", "", "tokens", "the longest sample"),
    CountKey("vocab_size", "", "ids", "ids are drawn below it"),
    kSeed,
};
constexpr Key kRolloutMockKeys[] = {
    CountKey("num_groups", "", "groups", "prompts"),
    CountKey("completions_per_group", "", "samples", "answers to each prompt"),
    CountKey("prompt_len", "", "tokens", "length of a prompt"),
    CountKey("completion_len", "", "tokens", "length of an answer"),
    CountKey("vocab_size", "", "ids", "ids are drawn below it"),
    kSeed,
};
constexpr Key kSeq2SeqKeys[] = {
    kDatasetName,
    kLimit,
    CountKey("max_source_length", "", "tokens", "the longest source"),
    CountKey("max_target_length", "", "tokens", "the longest target"),
};
constexpr Key kSentencePairKeys[] = {
    CountKey("num_samples_limit", "", "samples", "only the first so many"),
    CountKey("max_length", "", "tokens", "the longest pair"),
};

// ---- retrieval

constexpr Key kSourceKeys[] = {
    Naming(Names::kData, TextKey("path", "hub id (hf://…) or file")),
    CountKey("num_samples", "", "samples", "only so many of it"),
};
constexpr Section kSourceSection = {.keys = kSourceKeys, .alone = "path"};
constexpr Key kRetrievalKeys[] = {
    ChoiceKey("model_type", "bi_encoder", "bi_encoder cross_encoder",
              "what the samples are made for"),
    ListKey("data_dir_list", kSourceSection, "the data sets: paths, or maps with a path"),
    TextKey("data_type", "train or eval", "train"),
    CountKey("n_passages", "5", "passages", "of a query: one that fits and others"),
    CountKey("eval_negative_size", "10", "passages", "that do not fit, in validation"),
    kSeed,
    BoolKey("do_shuffle", "false", "shuffle the samples once"),
    CountKey("max_train_samples", "", "samples", "only the first so many"),
    BoolKey("use_dataset_instruction", "false", "queries begin with the data set's instruction"),
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
     .keys = kColumnMappedKeys},
    {.targets = "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset",
     .name = "chat",
     .support = kNotTrainable,
     .keys = kChatKeys},
    {.targets = "nemo_automodel.components.datasets.llm.agent_chat.make_agent_chat_dataset",
     .name = "agent_chat",
     .support = kNotTrainable,
     .keys = kAgentChatKeys},
    {.targets = "nemo_automodel.components.datasets.llm.xlam.make_xlam_dataset",
     .name = "tool_calls",
     .support = kNotTrainable,
     .keys = kToolCallKeys},
    {.targets = "nemo_automodel.components.datasets.llm.megatron_dataset.MegatronPretraining",
     .name = "megatron",
     .support = kNotTrainable,
     .keys = kMegatronKeys},
    {.targets = "nemo_automodel.components.datasets.llm.nanogpt_dataset.NanogptDataset",
     .name = "nanogpt",
     .support = kNotTrainable,
     .keys = kNanogptKeys},
    {.targets = "nemo_automodel.components.datasets.llm.mock.build_unpacked_dataset",
     .name = "mock_unpacked",
     .support = kNotTrainable,
     .keys = kUnpackedMockKeys},
    {.targets = "nemo_automodel.components.datasets.llm.mock_prefix_tree."
                "build_mock_rollout_dataset",
     .name = "mock_rollouts",
     .support = kNotTrainable,
     .keys = kRolloutMockKeys},
    {.targets = "nemo_automodel.components.datasets.llm.seq2seq.make_seq2seq_dataset",
     .name = "seq2seq",
     .support = kNotTrainable,
     .keys = kSeq2SeqKeys},
    {.targets = "nemo_automodel.components.datasets.llm.seq_cls.GLUE_MRPC",
     .name = "sentence_pairs",
     .support = kNotTrainable,
     .keys = kSentencePairKeys},
    {.targets = "nemo_automodel.components.datasets.llm.retrieval_dataset.RetrievalDatasetConfig "
                "nemo_automodel.components.datasets.llm.make_retrieval_dataset",
     .name = "retrieval",
     .support = kNotTrainable,
     .keys = kRetrievalKeys},
};
constexpr Key kDatasetKeys[] = {
    {.name = "_target_", .means = "the data set, by its Python name"},
    {.name = "split",
     .nullable = true,
     .fallback = "train",
     .means = "train, validation, …; of a directory, the file of that name"},
    {.name = "tokenizer",
     .type = kSection,
     .nullable = true,
     .means = "instead of the model's",
     .section = &kTokenizerSection},
};

}  // namespace

const Section kDatasetSection = {.keys = kDatasetKeys,
                                 .parts = kDatasets,
                                 .default_part = "squad",
                                 .also = &kMediaDatasetSection};

}  // namespace am::recipe
