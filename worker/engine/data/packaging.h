// Packaging: a prompt and its answer, or a conversation, to token ids and shifted labels.
//
// Immutable, shared by any threads. Supervised are the answer (everything behind the prompt), or
// the assistant's turns: those inside {% generation %} blocks where the template has them, else
// what each assistant message adds to the rendering of the messages before it, its header included.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/data/dataset.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"

namespace am::engine {

class Packager {
 public:
  // The template is the override, else the tokenizer's own. Throws am::Error (kUser) when it does
  // not parse.
  Packager(const DatasetSpec& spec, const text::Tokenizer& tokenizer,
           const std::string& chat_template_override, int64_t vocab_size);

  bool has_chat_template() const { return chat_.has_value(); }

  // `place` ("FILE:LINE") begins the message of what is thrown: am::Error (kUser) for a sample
  // longer than seq_length (unless truncation), a template that refuses the conversation, a token
  // beyond the model's vocabulary.
  Sample PromptAnswer(const std::string& prompt, const std::string& answer,
                      const std::string& place) const;
  Sample Chat(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
              const std::string& place) const;

 private:
  struct Tokens {
    std::vector<int32_t> ids;
    std::vector<bool> supervised;  // as long as ids
  };

  text::Rendered Render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                        const std::string& place) const;
  std::vector<int32_t> Encode(const std::string& text, bool add_special_tokens,
                              const std::string& place) const;
  void MarkGenerations(Tokens& tokens, const text::Rendered& rendered,
                       const std::string& place) const;
  void MarkAssistantTurns(Tokens& tokens, const nlohmann::ordered_json& messages,
                          const nlohmann::ordered_json& tools, const std::string& place) const;
  Sample Finish(Tokens tokens, const std::string& place) const;

  const text::Tokenizer& tokenizer_;
  std::optional<text::ChatTemplate> chat_;
  std::optional<int64_t> seq_length_;
  bool pad_to_length_;
  bool truncation_;
  bool answer_only_;
  int64_t vocab_size_;
  int64_t pad_id_;
};

}  // namespace am::engine
