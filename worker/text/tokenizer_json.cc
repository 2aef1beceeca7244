// Reads tokenizer.json. The vocabulary and the merges, which are nearly all of it, go through the
// pull reader in one pass; the other sections are cut out as text and parsed by nlohmann::json.
#include <array>
#include <deque>
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

struct MergeText {
  std::string_view left, right;
};

// Merges come as "left right" or as [left, right].
std::vector<MergeText> ReadMerges(JsonReader& json, size_t expected,
                                  std::deque<std::string>& store) {
  std::vector<MergeText> merges;
  merges.reserve(expected);
  json.BeginArray();
  while (json.NextElement()) {
    if (json.Peek() == JsonReader::Kind::kArray) {
      MergeText merge;
      json.BeginArray();
      if (!json.NextElement()) json.Fail("model.merges: expected [left, right]");
      merge.left = json.KeptString(store);
      if (!json.NextElement()) json.Fail("model.merges: expected [left, right]");
      merge.right = json.KeptString(store);
      if (json.NextElement()) json.Fail("model.merges: expected [left, right]");
      merges.push_back(merge);
      continue;
    }
    const std::string_view line = json.KeptString(store);
    if (line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      json.Fail("model.merges: merge " + std::to_string(merges.size()) + " is `" +
                std::string(line) + "`; expected two tokens with a space");
    }
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

// Three searches in the vocabulary for each merge: done in batches, so that their cache misses
// overlap.
MergeTable ResolveMerges(const std::vector<MergeText>& merges, const Vocabulary& vocabulary,
                         size_t prefix, const std::string& file,
                         std::array<bool, 256>& no_cut_after) {
  constexpr size_t kBatch = 32;
  struct Search {
    std::string joint;
    uint64_t left, right, joint_hash;
    int32_t left_id, right_id, joint_id;
  };
  std::array<Search, kBatch> batch;
  MergeTable table;
  table.Reserve(merges.size());
  for (size_t begin = 0; begin < merges.size(); begin += kBatch) {
    const size_t count = std::min(kBatch, merges.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const auto& [left, right] = merges[begin + i];
      Search& search = batch[i];
      search.joint = left;
      if (right.size() >= prefix) search.joint += right.substr(prefix);
      search.left = HashBytes(left);
      search.right = HashBytes(right);
      search.joint_hash = HashBytes(search.joint);
      for (const uint64_t hash : {search.left, search.right, search.joint_hash})
        vocabulary.PrefetchSlot(hash);
    }
    const auto each = [&](void (Vocabulary::*prefetch)(uint64_t) const) {
      for (size_t i = 0; i < count; ++i) {
        for (const uint64_t hash : {batch[i].left, batch[i].right, batch[i].joint_hash})
          (vocabulary.*prefetch)(hash);
      }
    };
    each(&Vocabulary::PrefetchEntry);
    each(&Vocabulary::PrefetchText);
    for (size_t i = 0; i < count; ++i) {
      const auto& [left, right] = merges[begin + i];
      Search& search = batch[i];
      search.left_id = vocabulary.Find(left, search.left).value_or(-1);
      search.right_id = vocabulary.Find(right, search.right).value_or(-1);
      search.joint_id = vocabulary.Find(search.joint, search.joint_hash).value_or(-1);
      if (search.left_id < 0 || search.right_id < 0 || search.joint_id < 0) {
        const std::string_view missing = search.left_id < 0    ? left
                                         : search.right_id < 0 ? right
                                                               : search.joint;
        throw UserError(file + ": error: model.merges: merge " + std::to_string(begin + i) +
                        " joins `" + std::string(left) + "` and `" + std::string(right) +
                        "`, but `" + std::string(missing) + "` is not in the vocabulary");
      }
      table.Prefetch(search.left_id, search.right_id);
      if (right.starts_with(kMetaspace) && !left.empty() && !left.ends_with(kMetaspace)) {
        no_cut_after[static_cast<unsigned char>(left.back())] = true;
      }
    }
    for (size_t i = 0; i < count; ++i) {
      table.Insert(batch[i].left_id, batch[i].right_id,
                   {static_cast<uint32_t>(begin + i), batch[i].joint_id});
    }
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
    JsonReader json(document, file, static_cast<size_t>(model.merges.data() - document.data()));
    std::deque<std::string> store;
    std::array<bool, 256> no_cut_after{};
    MergeTable merges =
        ResolveMerges(ReadMerges(json, model.merges.size() / 16, store), model.vocabulary,
                      model.continuing_subword_prefix.value_or("").size(), file, no_cut_after);
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
    options.no_cut_after = no_cut_after;
    options.cut_at_metaspace =
        !byte_level && !model.ignore_merges && options.continuing_subword_prefix.empty() &&
        options.end_of_word_suffix.empty() && model.vocabulary.Find(kMetaspace).has_value();
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

}  // namespace

AddedToken ReadAddedToken(JsonReader& json) {
  AddedToken token;
  bool content = false;
  std::optional<bool> normalized;
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
      normalized = json.Bool();
    } else if (key == "special") {
      token.special = json.Bool();
    } else {
      json.Skip();
    }
  }
  if (!content) json.Fail("an added token lacks its content");
  token.normalized = normalized.value_or(!token.special);
  return token;
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
      if (json.TakeNull()) continue;
      json.BeginArray();
      while (json.NextElement()) added.push_back(ReadAddedToken(json));
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
    pipeline.added.Add(std::move(token), *pipeline.model, pipeline.normalizer);
  }
  return pipeline;
}

}  // namespace am::text
