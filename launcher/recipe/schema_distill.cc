// Teachers, and retrieval: losses against another model's output, mining of hard examples.
#include "launcher/recipe/schema_keys.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

constexpr Key kTarget = TargetKey("the loss, by its Python name");
constexpr Key kReduction =
    ChoiceKey("reduction", "mean", "mean sum none", "how the samples' losses are joined");
constexpr Key kNormalize = BoolKey("normalize", "true", "vectors are made length 1 first");

constexpr Key kEmbeddingLossKeys[] = {kTarget, kReduction, kNormalize};
constexpr Part kDistillLosses[] = {
    {.targets = "nemo_automodel.components.loss.embedding_distill.EmbeddingDistillLoss",
     .name = "cosine"}};
constexpr Part kMseLosses[] = {
    {.targets = "nemo_automodel.components.loss.embedding_distill.EmbeddingMSELoss",
     .name = "mse"}};

constexpr Key kInfoNceKeys[] = {
    kTarget,
    NumberKey("temperature", "0.05", "scores are divided by it"),
    ChoiceKey("direction", "q2d", "q2d d2q both", "queries to passages, or the other way"),
    ChoiceKey("divergence", "kl", "kl js mse", "how the two distributions are compared"),
    kNormalize,
    kReduction,
    BoolKey("use_in_batch_negatives", "true", "passages of other queries count as wrong"),
    BoolKey("cross_device_negatives", "false", "so do those of other ranks"),
};
constexpr Part kInfoNceLosses[] = {
    {.targets = "nemo_automodel.components.loss.infonce.InfoNCEDistillLoss", .name = "infonce"}};

constexpr Key kMiningKeys[] = {
    CountKey("hard_negatives_to_mine", "20", "passages", "found for a query"),
    ShareKey("hard_neg_margin", "0.95", "how near the right passage they may come"),
    ChoiceKey("hard_neg_margin_type", "perc", "perc abs",
              "margin as a share of the right passage's score, or taken from it"),
    CountKey("mining_batch_size", "128", "queries", "searched for together"),
    CountKey("query_embedding_batch_size", "16", "queries", "embedded together"),
    CountKey("document_embedding_batch_size", "16", "passages", "embedded together"),
    CountKey("corpus_chunk_size", "50000", "passages", "searched at a time"),
    CountKey("query_max_length", "512", "tokens", "the longest query"),
    CountKey("passage_max_length", "512", "tokens", "the longest passage"),
    TextKey("query_prefix", "text before each query"),
    TextKey("passage_prefix", "text before each passage"),
    BoolKey("load_embeddings_from_cache", "false", "use vectors of a former run"),
    BoolKey("use_negatives_from_file", "false", "begin with those that the file names"),
    Naming(Names::kInput, TextKey("train_qa_file_path", "file of questions and their passages")),
    Naming(Names::kOutputFile, TextKey("train_file_output_path", "file of the result")),
    Naming(Names::kOutput, TextKey("cache_embeddings_dir", "where vectors are kept")),
};

}  // namespace

const Section kDistillLossSection = {
    .keys = kEmbeddingLossKeys, .parts = kDistillLosses, .default_part = "cosine"};
const Section kMseLossSection = {
    .keys = kEmbeddingLossKeys, .parts = kMseLosses, .default_part = "mse"};
const Section kInfoNceLossSection = {
    .keys = kInfoNceKeys, .parts = kInfoNceLosses, .default_part = "infonce"};
const Section kMiningSection = {.keys = kMiningKeys};

}  // namespace am::recipe
