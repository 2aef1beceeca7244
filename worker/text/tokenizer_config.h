// TokenizerConfig: tokenizer_config.json, special_tokens_map.json, added_tokens.json and the chat
// template files of a model directory, read as transformers 5 reads them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/text/added_tokens.h"

namespace am::text {

struct TokenizerConfig {
  // bos_token, eos_token, ... in the order in which tokens that the vocabulary lacks are added;
  // null is left out.
  std::vector<std::pair<std::string, AddedToken>> named;
  std::map<int64_t, AddedToken> added_tokens;  // added_tokens_decoder
  std::vector<AddedToken> extra_special_tokens;
  std::optional<bool> add_bos_token, add_eos_token;
  std::string chat_template;

  const AddedToken* Named(const std::string& name) const;

  // Missing files are no error. Throws am::Error (kUser) naming the file and the key.
  static TokenizerConfig Load(const std::string& model_dir);
};

// The whole file; nothing when there is none. Throws am::Error (kIo) when it cannot be read.
std::optional<std::string> ReadFileIfThere(const std::string& path);

}  // namespace am::text
