// Reads tokenizer.json. The vocabulary and the merges, which are nearly all of it, go through the
// pull reader in one pass; the other sections are cut out as text and parsed by nlohmann::json.
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "worker/text/bpe_model.h"
#include "worker/text/byte_level.h"
#include "worker/text/json_fields.h"
#include "worker/text/json_reader.h"
#include "worker/text/pipeline.h"
#include "worker/text/unigram_model.h"
#include "worker/text/utf8.h"
#include "worker/text/word_models.h"

namespace am::text {
namespace {

// The model section in parts; which of them are there tells the type where "type" is missing.
struct ModelSection {
  std::string type;
  Vocabulary vocabulary;
  std::vector<double> scores;  // Unigram's vocabulary is an array of [token, score]
  bool vocabulary_seen = false, scored = false, merges_seen = false;
  std::string_view merges;  // raw, read when the vocabulary is complete
  std::optional<std::string> unk_token, continuing_subword_prefix, end_of_word_suffix;
  std::optional<int64_t> unk_id, max_input_chars_per_word;
  bool fuse_unk = false, byte_fallback = false, ignore_merges = false;
};

int32_t ReadId(JsonReader& json, std::string_view token) {
  const int64_t id = json.Int();
  if (id < 0 || id > Vocabulary::kMaxId) {
    json.Fail("the id of `" + std::string(token) + "` is " + std::to_string(id) +
              "; allowed are 0 to " + std::to_string(Vocabulary::kMaxId));
  }
  return static_cast<int32_t>(id);
}

void ReadVocabulary(JsonReader& json, size_t document_bytes, ModelSection& model) {
  model.vocabulary_seen = true;
  if (json.Peek() == JsonReader::Kind::kArray) {
    model.scored = true;
    json.BeginArray();
    while (json.NextElement()) {
      json.BeginArray();
      if (!json.NextElement()) json.Fail("model.vocab: expected [token, score]");
      model.vocabulary.Insert(json.String(), static_cast<int32_t>(model.scores.size()));
      if (!json.NextElement()) json.Fail("model.vocab: expected [token, score]");
      model.scores.push_back(json.Double());
      if (json.NextElement()) json.Fail("model.vocab: expected [token, score]");
      if (model.scores.size() > static_cast<size_t>(Vocabulary::kMaxId))
        json.Fail("model.vocab: too many entries");
    }
    return;
  }
  model.vocabulary.Reserve(document_bytes / 128, document_bytes / 8);
  json.BeginObject();
  std::string_view key;
  std::string token;
  while (json.NextKey(key)) {
    token = key;
    model.vocabulary.Insert(token, ReadId(json, token));
  }
}

ModelSection ReadModel(JsonReader& json, size_t document_bytes) {
  ModelSection model;
  json.BeginObject();
  std::string_view view;
  const auto text = [&](std::optional<std::string>& field) {
    if (!json.TakeNull()) field = json.String();
  };
  const auto flag = [&](bool& field) {
    if (!json.TakeNull()) field = json.Bool();
  };
  while (json.NextKey(view)) {
    const std::string key(view);
    if (key == "type") {
      model.type = json.String();
    } else if (key == "vocab") {
      ReadVocabulary(json, document_bytes, model);
    } else if (key == "merges") {
      model.merges_seen = true;
      if (json.Peek() != JsonReader::Kind::kArray)
        json.Fail("model.merges: expected an array, found " + json.Found());
      model.merges = json.Skip();
    } else if (key == "unk_token") {
      text(model.unk_token);
    } else if (key == "continuing_subword_prefix") {
      text(model.continuing_subword_prefix);
    } else if (key == "end_of_word_suffix") {
      text(model.end_of_word_suffix);
    } else if (key == "unk_id") {
      if (!json.TakeNull()) model.unk_id = json.Int();
    } else if (key == "max_input_chars_per_word") {
      if (!json.TakeNull()) model.max_input_chars_per_word = json.Int();
    } else if (key == "fuse_unk") {
      flag(model.fuse_unk);
    } else if (key == "byte_fallback") {
      flag(model.byte_fallback);
    } else if (key == "ignore_merges") {
      flag(model.ignore_merges);
    } else if (key == "dropout") {
      if (!json.TakeNull() && json.Double() != 0) {
        json.Fail("model.dropout: random merges are not supported; set it to null");
      }
    } else {
      json.Skip();
    }
  }
  return model;
}

constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// Merges come as "left right" or as [left, right].
MergeTable ReadMerges(const ModelSection& model, std::string_view document, const std::string& file,
                      bool& joins_before_metaspace) {
  JsonReader json(document, file, static_cast<size_t>(model.merges.data() - document.data()));
  MergeTable table;
  table.Reserve(model.merges.size() / 24);
  const size_t prefix = model.continuing_subword_prefix.value_or("").size();
  std::string left, right, joint;
  json.BeginArray();
  for (uint32_t rank = 0; json.NextElement();) {
    if (json.Peek() == JsonReader::Kind::kArray) {
      json.BeginArray();
      if (!json.NextElement()) json.Fail("model.merges: expected [left, right]");
      left = json.String();
      if (!json.NextElement()) json.Fail("model.merges: expected [left, right]");
      right = json.String();
      if (json.NextElement()) json.Fail("model.merges: expected [left, right]");
    } else {
      const std::string_view line = json.String();
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
        json.Fail("model.merges: merge " + std::to_string(rank) + " is `" + std::string(line) +
                  "`; expected two tokens with a space");
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    }
    const auto left_id = model.vocabulary.Find(left);
    const auto right_id = model.vocabulary.Find(right);
    joint = left;
    if (right.size() >= prefix) joint.append(right, prefix);
    const auto id = model.vocabulary.Find(joint);
    if (!left_id || !right_id || !id) {
      json.Fail("model.merges: merge " + std::to_string(rank) + " joins `" + left + "` and `" +
                right + "`, but `" +
                (!left_id    ? left
                 : !right_id ? right
                             : joint) +
                "` is not in the vocabulary");
    }
    joins_before_metaspace |= right.starts_with(kMetaspace) && !left.ends_with(kMetaspace);
    table.Insert(*left_id, *right_id, {rank++, *id});
  }
  return table;
}

std::unique_ptr<const Model> BuildModel(ModelSection model, bool byte_level,
                                        std::string_view document, const std::string& file) {
  const auto fail = [&](const std::string& what) {
    throw UserError(file + ": error: model." + what);
  };
  if (!model.vocabulary_seen) fail("vocab: missing");
  if (model.type.empty()) {
    model.type = model.merges_seen                ? "BPE"
                 : model.scored                   ? "Unigram"
                 : model.max_input_chars_per_word ? "WordPiece"
                                                  : "WordLevel";
  }
  if (model.type == "Unigram") {
    if (!model.scored) fail("vocab: a Unigram model needs an array of [token, score]");
    if (model.unk_id &&
        (*model.unk_id < 0 || static_cast<size_t>(*model.unk_id) >= model.scores.size())) {
      fail("unk_id: " + std::to_string(*model.unk_id) + " is outside the vocabulary of " +
           std::to_string(model.scores.size()));
    }
    UnigramModel::Options options{.byte_fallback = model.byte_fallback};
    if (model.unk_id) options.unk_id = static_cast<int32_t>(*model.unk_id);
    return std::make_unique<UnigramModel>(std::move(model.vocabulary), std::move(model.scores),
                                          options);
  }
  if (model.scored) fail("vocab: a " + model.type + " model needs an object of token and id");
  if (model.type == "BPE") {
    if (!model.merges_seen) fail("merges: missing");
    bool joins_before_metaspace = false;
    MergeTable merges = ReadMerges(model, document, file, joins_before_metaspace);
    BpeOptions options{.fuse_unk = model.fuse_unk,
                       .byte_fallback = model.byte_fallback,
                       .ignore_merges = model.ignore_merges,
                       .continuing_subword_prefix = model.continuing_subword_prefix.value_or(""),
                       .end_of_word_suffix = model.end_of_word_suffix.value_or(""),
                       .byte_level = byte_level};
    if (model.unk_token) {
      options.unk_id = model.vocabulary.Find(*model.unk_token);
      options.unk_missing = !options.unk_id;
    }
    options.cut_at_metaspace = !joins_before_metaspace && !byte_level && !model.ignore_merges &&
                               options.continuing_subword_prefix.empty() &&
                               options.end_of_word_suffix.empty() &&
                               model.vocabulary.Find(kMetaspace).has_value();
    return std::make_unique<BpeModel>(std::move(model.vocabulary), std::move(merges),
                                      std::move(options));
  }
  if (model.type == "WordPiece") {
    const int64_t limit = model.max_input_chars_per_word.value_or(100);
    if (limit < 0) fail("max_input_chars_per_word: " + std::to_string(limit) + " is negative");
    return std::make_unique<WordPieceModel>(
        std::move(model.vocabulary), model.unk_token.value_or("[UNK]"),
        model.continuing_subword_prefix.value_or("##"), static_cast<size_t>(limit));
  }
  if (model.type == "WordLevel") {
    return std::make_unique<WordLevelModel>(std::move(model.vocabulary),
                                            model.unk_token.value_or("<unk>"));
  }
  throw UserError(file + ": error: model.type: `" + model.type +
                  "` is not understood; understood: BPE, Unigram, WordPiece, WordLevel");
}

// Runs `parse` on a section's text, naming the section in what it throws.
template <typename Parse>
auto InSection(const std::string& file, const char* name, std::string_view raw, Parse parse) {
  try {
    return parse(nlohmann::json::parse(raw));
  } catch (const Error& error) {
    throw UserError(file + ": error: " + name + ": " + error.what());
  } catch (const nlohmann::json::exception& error) {
    throw UserError(file + ": error: " + name + ": " + error.what());
  }
}

std::vector<AddedToken> ReadAddedTokens(JsonReader& json) {
  std::vector<AddedToken> tokens;
  if (json.TakeNull()) return tokens;
  json.BeginArray();
  while (json.NextElement()) {
    AddedToken token;
    bool content = false;
    json.BeginObject();
    std::string_view view;
    while (json.NextKey(view)) {
      const std::string key(view);
      if (key == "content") {
        token.content = json.String();
        content = true;
      } else if (key == "single_word") {
        token.single_word = json.Bool();
      } else if (key == "lstrip") {
        token.lstrip = json.Bool();
      } else if (key == "rstrip") {
        token.rstrip = json.Bool();
      } else if (key == "normalized") {
        token.normalized = json.Bool();
      } else if (key == "special") {
        token.special = json.Bool();
      } else {
        json.Skip();
      }
    }
    if (!content) json.Fail("added_tokens: an entry lacks its content");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace

AddedToken ParseAddedToken(const nlohmann::json& object) {
  const bool special = BoolField(object, "special", false);
  return {.content = StringField(object, "content"),
          .single_word = BoolField(object, "single_word", false),
          .lstrip = BoolField(object, "lstrip", false),
          .rstrip = BoolField(object, "rstrip", false),
          .normalized = BoolField(object, "normalized", !special),
          .special = special};
}

Pipeline LoadTokenizerJson(std::string_view text, const std::string& file) {
  if (const auto bad = FindInvalidUtf8(text)) {
    throw UserError(file + ": error: not UTF-8 at byte " + std::to_string(*bad));
  }
  JsonReader json(text, file);
  std::string_view normalizer = "null", pre_tokenizer = "null", post_processor = "null",
                   decoder = "null";
  std::vector<AddedToken> added;
  std::optional<ModelSection> model;
  json.BeginObject();
  std::string_view view;
  while (json.NextKey(view)) {
    const std::string key(view);
    if (key == "model") {
      model = ReadModel(json, text.size());
    } else if (key == "added_tokens") {
      added = ReadAddedTokens(json);
    } else if (key == "normalizer") {
      normalizer = json.Skip();
    } else if (key == "pre_tokenizer") {
      pre_tokenizer = json.Skip();
    } else if (key == "post_processor") {
      post_processor = json.Skip();
    } else if (key == "decoder") {
      decoder = json.Skip();
    } else if (key == "version") {
      const std::string version(json.String());
      if (version != "1.0")
        json.Fail("version: `" + version + "` is not understood; understood: 1.0");
    } else {
      json.Skip();  // truncation and padding belong to batches
    }
  }
  json.End();
  if (!model) throw UserError(file + ": error: model: missing; is this a tokenizer.json?");

  Pipeline pipeline;
  pipeline.normalizer = InSection(file, "normalizer", normalizer, Normalizer::Parse);
  const bool bpe = model->type == "BPE" || (model->type.empty() && model->merges_seen);
  pipeline.pre_tokenizer =
      InSection(file, "pre_tokenizer", pre_tokenizer,
                [bpe](const nlohmann::json& section) { return PreTokenizer::Parse(section, bpe); });
  pipeline.post_processor = InSection(file, "post_processor", post_processor, PostProcessor::Parse);
  pipeline.decoder = InSection(file, "decoder", decoder, Decoder::Parse);
  pipeline.model = BuildModel(*std::move(model), pipeline.pre_tokenizer.byte_level(), text, file);
  for (AddedToken& token : added) {
    pipeline.added.Add(std::move(token), pipeline.model->vocabulary(), pipeline.normalizer);
  }
  return pipeline;
}

}  // namespace am::text
