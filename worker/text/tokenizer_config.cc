#include "worker/text/tokenizer_config.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "worker/text/json_reader.h"
#include "worker/text/pipeline.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};

// The values of a file that has one object. Those of `heavy` are left to `read_heavy`, because they
// are long.
std::optional<Json> ReadJson(const std::string& path, std::string_view heavy = "",
                             const std::function<void(JsonReader&)>& read_heavy = nullptr) {
  const std::optional<std::string> text = ReadFileIfThere(path);
  if (!text) return std::nullopt;
  if (const auto bad = FindInvalidUtf8(*text))
    throw UserError(path + ": error: not UTF-8 at byte " + std::to_string(*bad));
  JsonReader reader(*text, path);
  Json json = Json::object();
  std::string_view view;
  reader.BeginObject();
  while (reader.NextKey(view)) {
    const std::string key(view);
    if (key == heavy) {
      read_heavy(reader);
    } else {
      json[key] = Json::parse(reader.Skip());
    }
  }
  reader.End();
  return json;
}

bool IsNamed(const std::string& key) {
  return std::any_of(std::begin(kNamedTokens), std::end(kNamedTokens),
                     [&](const char* n) { return key == n; });
}

// "text" or {"content": "text", ...}; nothing for null and for other things that some configs put
// there.
std::optional<AddedToken> TokenOf(const Json& value) {
  if (value.is_string())
    return AddedToken{.content = value.get<std::string>(), .normalized = false, .special = true};
  if (!value.is_object() || !value.contains("content")) return std::nullopt;
  const std::string text = value.dump();
  JsonReader reader(text, "a token");
  AddedToken token = ReadAddedToken(reader);
  token.special = true;
  return token;
}

class Reader {
 public:
  Reader(const std::string& dir, TokenizerConfig& config) : dir_(dir), config_(config) {}

  void Read() {
    const std::string path = dir_ + "/tokenizer_config.json";
    bool decoder_given = false;
    Json json = ReadJson(path, "added_tokens_decoder", [&](JsonReader& reader) {
                  decoder_given = true;
                  ReadDecoder(reader);
                }).value_or(Json::object());
    try {
      if (!decoder_given) MergeSpecialTokensMap(json);
      ReadTokens(json);
      if (!decoder_given) ReadAddedTokensFile();
      ReadFlag(json, "add_bos_token", config_.add_bos_token);
      ReadFlag(json, "add_eos_token", config_.add_eos_token);
      ReadTemplate(json);
    } catch (const nlohmann::json::exception& error) {
      throw UserError(path + ": error: " + error.what());
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with(dir_)) throw;
      throw UserError(path + ": error: " + error.what());
    }
  }

 private:
  void ReadDecoder(JsonReader& reader) {
    reader.BeginObject();
    std::string_view key;
    while (reader.NextKey(key)) {
      int64_t id = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size()) {
        reader.Fail("added_tokens_decoder: `" + std::string(key) + "` is not a token id");
      }
      config_.added_tokens[id] = ReadAddedToken(reader);
    }
  }

  void MergeSpecialTokensMap(Json& json) {
    const std::optional<Json> map = ReadJson(dir_ + "/special_tokens_map.json");
    if (!map) return;
    for (const auto& [key, value] : map->items()) json[key] = value;
  }

  // Standard names first, then the model's own *_token keys and extra_special_tokens given by name.
  void ReadTokens(const Json& json) {
    const auto add = [&](const std::string& key, const Json& value) {
      if (auto token = TokenOf(value)) config_.named.emplace_back(key, *std::move(token));
    };
    for (const char* key : kNamedTokens) {
      if (json.contains(key)) add(key, json[key]);
    }
    for (const auto& [key, value] : json.items()) {
      if (key.ends_with("_token") && !IsNamed(key) && value.is_string()) add(key, value);
    }
    const bool extra_given =
        json.contains("extra_special_tokens") && !json["extra_special_tokens"].empty();
    const char* key = extra_given ? "extra_special_tokens" : "additional_special_tokens";
    if (!json.contains(key)) return;
    if (json[key].is_object()) {
      for (const auto& [name, value] : json[key].items()) add(name, value);
    } else if (json[key].is_array()) {
      for (const Json& value : json[key]) {
        if (auto token = TokenOf(value)) config_.extra_special_tokens.push_back(*std::move(token));
      }
    }
  }

  void ReadAddedTokensFile() {
    const std::string path = dir_ + "/added_tokens.json";
    const std::optional<Json> json = ReadJson(path);
    if (!json) return;
    for (const auto& [content, id] : json->items()) {
      if (!id.is_number_integer())
        throw UserError(path + ": error: " + content + ": expected an id, found " + id.dump());
      const auto is_it = [&content = content](const AddedToken& token) {
        return token.content == content;
      };
      const bool special = std::any_of(config_.named.begin(), config_.named.end(),
                                       [&](const auto& n) { return is_it(n.second); }) ||
                           std::any_of(config_.extra_special_tokens.begin(),
                                       config_.extra_special_tokens.end(), is_it);
      config_.added_tokens[id.get<int64_t>()] = {
          .content = content, .normalized = !special, .special = special};
    }
  }

  static void ReadFlag(const Json& json, const char* key, std::optional<bool>& flag) {
    if (json.contains(key) && json[key].is_boolean()) flag = json[key].get<bool>();
  }

  // chat_template.jinja wins; else a string, or a list of named ones, of which "default" is taken.
  void ReadTemplate(const Json& json) {
    if (auto text = ReadFileIfThere(dir_ + "/chat_template.jinja")) {
      config_.chat_template = *std::move(text);
    } else if (json.contains("chat_template")) {
      const Json& value = json["chat_template"];
      if (value.is_string()) config_.chat_template = value.get<std::string>();
      for (const Json& entry : value.is_array() ? value : Json::array()) {
        if (entry.value("name", "") == "default")
          config_.chat_template = entry.value("template", "");
      }
    }
    if (const auto bad = FindInvalidUtf8(config_.chat_template)) {
      throw UserError("chat template: not UTF-8 at byte " + std::to_string(*bad));
    }
  }

  const std::string& dir_;
  TokenizerConfig& config_;
};

}  // namespace

const AddedToken* TokenizerConfig::Named(const std::string& name) const {
  for (const auto& [key, token] : named) {
    if (key == name) return &token;
  }
  return nullptr;
}

TokenizerConfig TokenizerConfig::Load(const std::string& model_dir) {
  TokenizerConfig config;
  Reader(model_dir, config).Read();
  return config;
}

std::optional<std::string> ReadFileIfThere(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw IoError(path + ": error: cannot be read: " + std::strerror(errno));
  }
  std::string text;
  if (std::fseek(file.get(), 0, SEEK_END) == 0) {
    if (const long size = std::ftell(file.get()); size > 0) text.resize(static_cast<size_t>(size));
    std::rewind(file.get());
  }
  const size_t read = std::fread(text.data(), 1, text.size(), file.get());
  if (read != text.size()) {
    throw IoError(path + ": error: cannot be read: " +
                  (std::ferror(file.get()) ? std::strerror(errno) : "it shrank"));
  }
  return text;
}

}  // namespace am::text
