#include "worker/text/post_processor.h"

#include <string>

#include "worker/text/json_fields.h"
#include "worker/text/vocabulary.h"

namespace am::text {
namespace {

int32_t TokenId(const nlohmann::json& value) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 ||
      value.get<int64_t>() > Vocabulary::kMaxId) {
    throw UserError("a token id was expected, found " + value.dump());
  }
  return value.get<int32_t>();
}

// Puts the ids of an outer processor around those that inner ones gave.
void Wrap(PostProcessor& all, const std::vector<int32_t>& prefix,
          const std::vector<int32_t>& suffix) {
  all.prefix.insert(all.prefix.begin(), prefix.begin(), prefix.end());
  all.suffix.insert(all.suffix.end(), suffix.begin(), suffix.end());
}

void ParseTemplate(const nlohmann::json& section, PostProcessor& all) {
  const nlohmann::json& tokens = Field(section, "special_tokens");
  std::vector<int32_t> prefix, suffix;
  bool text_seen = false;
  for (const nlohmann::json& piece : ArrayField(section, "single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      if (text_seen || StringField(piece["Sequence"], "id") != "A") {
        throw UserError("single: the text must stand in the template exactly once, as sequence A");
      }
      text_seen = true;
    } else if (piece.is_object() && piece.contains("SpecialToken")) {
      const std::string name = StringField(piece["SpecialToken"], "id");
      if (!tokens.is_object() || !tokens.contains(name)) {
        throw UserError("single: the template names `" + name + "`, which special_tokens lacks");
      }
      for (const nlohmann::json& id : ArrayField(tokens[name], "ids"))
        (text_seen ? suffix : prefix).push_back(TokenId(id));
    } else {
      throw UserError("single: expected Sequence or SpecialToken, found " + piece.dump());
    }
  }
  if (!text_seen) throw UserError("single: the template lacks the text (sequence A)");
  Wrap(all, prefix, suffix);
}

int32_t NamedToken(const nlohmann::json& section, const char* key) {
  const nlohmann::json& pair = ArrayField(section, key);
  if (pair.size() != 2) throw UserError(std::string(key) + ": expected [token, id]");
  return TokenId(pair[1]);
}

void ParseInto(const nlohmann::json& section, PostProcessor& all) {
  const std::string type = StringField(section, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& inner : ArrayField(section, "processors")) ParseInto(inner, all);
  } else if (type == "TemplateProcessing") {
    ParseTemplate(section, all);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    Wrap(all, {NamedToken(section, "cls")}, {NamedToken(section, "sep")});
  } else if (type != "ByteLevel") {  // which moves offsets only
    throw UserError(
        "the type `" + type +
        "` is not understood; understood: Sequence, TemplateProcessing, RobertaProcessing, "
        "BertProcessing, ByteLevel");
  }
}

}  // namespace

PostProcessor PostProcessor::Parse(const nlohmann::json& section) {
  PostProcessor all;
  if (!section.is_null()) ParseInto(section, all);
  return all;
}

}  // namespace am::text
