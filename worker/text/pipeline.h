// Pipeline: the parts of one tokenizer, as a tokenizer.json or a SentencePiece model gives them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "worker/text/added_tokens.h"
#include "worker/text/decoder.h"
#include "worker/text/model.h"
#include "worker/text/normalizer.h"
#include "worker/text/post_processor.h"
#include "worker/text/pre_tokenizer.h"

namespace am::text {

class JsonReader;

struct Pipeline {
  AddedTokens added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::unique_ptr<const Model> model;
  PostProcessor post_processor;
  Decoder decoder;
};

// `file` is what errors name. Both throw am::Error (kUser) with the file and the fault in it.
Pipeline LoadTokenizerJson(std::string_view text, const std::string& file);

struct SentencePieceFacts {  // what a tokenizer_config.json may leave to the model file
  std::string bos_token, eos_token, unk_token, pad_token;
};
Pipeline LoadSentencePiece(std::string_view bytes, const std::string& file,
                           SentencePieceFacts& facts);

// An entry of tokenizer.json's `added_tokens`, a value of tokenizer_config.json's
// `added_tokens_decoder`.
AddedToken ReadAddedToken(JsonReader& json);

}  // namespace am::text
