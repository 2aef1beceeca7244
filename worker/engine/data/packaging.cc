#include "worker/engine/data/packaging.h"

#include <algorithm>

#include "common/error.h"

namespace am::engine {
namespace {

using Json = nlohmann::ordered_json;

Error At(const std::string& place, const std::string& what) {
  return UserError(place + ": error: " + what);
}

size_t CommonPrefix(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

}  // namespace

Packager::Packager(const DatasetSpec& spec, const text::Tokenizer& tokenizer,
                   const std::string& chat_template_override, int64_t vocab_size)
    : tokenizer_(tokenizer),
      seq_length_(spec.seq_length),
      pad_to_length_(spec.padding == "max_length"),
      truncation_(spec.truncation),
      answer_only_(spec.answer_only_loss_mask),
      vocab_size_(vocab_size),
      pad_id_(tokenizer.pad_id().value_or(tokenizer.eos_id().value_or(0))) {
  const std::string& source =
      chat_template_override.empty() ? tokenizer.chat_template() : chat_template_override;
  if (!source.empty()) chat_ = text::ChatTemplate::Parse(source);
}

std::vector<int32_t> Packager::Encode(const std::string& text, bool add_special_tokens,
                                      const std::string& place) const {
  try {
    return tokenizer_.Encode(text, {.add_special_tokens = add_special_tokens});
  } catch (const Error& error) {
    throw At(place, error.what());
  }
}

Sample Packager::PromptAnswer(const std::string& prompt, const std::string& answer,
                              const std::string& place) const {
  Tokens tokens;
  tokens.ids = Encode(prompt + answer, true, place);
  // As many tokens as the prompt has alone; where a token spans prompt and answer this is off by
  // what it merges.
  const size_t prompt_tokens =
      Encode(prompt, false, place).size() + (tokenizer_.add_bos_token() ? 1 : 0);
  tokens.supervised.assign(tokens.ids.size(), true);
  std::fill_n(tokens.supervised.begin(), std::min(prompt_tokens, tokens.ids.size()), false);
  return Finish(std::move(tokens), place);
}

text::Rendered Packager::Render(const Json& messages, const Json& tools,
                                const std::string& place) const {
  try {
    text::RenderRequest request{.messages = messages, .tools = tools};
    for (const auto& [name, token] : tokenizer_.special_tokens()) request.variables[name] = token;
    return chat_->Render(request);
  } catch (const Error& error) {
    throw At(place, error.what());
  }
}

Sample Packager::Chat(const Json& messages, const Json& tools, const std::string& place) const {
  const bool answered = std::any_of(messages.begin(), messages.end(), [](const Json& message) {
    return message.value("role", "") == "assistant";
  });
  if (!answered)
    throw At(
        place,
        "the conversation has no message of the role 'assistant', so there is nothing to learn");
  const text::Rendered rendered = Render(messages, tools, place);
  Tokens tokens;
  tokens.ids = Encode(rendered.text, false, place);
  tokens.supervised.assign(tokens.ids.size(), false);
  if (chat_->has_generation_blocks()) {
    MarkGenerations(tokens, rendered, place);
  } else {
    MarkAssistantTurns(tokens, messages, tools, place);
  }
  return Finish(std::move(tokens), place);
}

void Packager::MarkGenerations(Tokens& tokens, const text::Rendered& rendered,
                               const std::string& place) const {
  // The tokens up to a byte are those that the text before it has too; one that spans the byte
  // belongs to the block.
  const auto tokens_before = [&](size_t byte, bool with_spanning) {
    const std::vector<int32_t> prefix = Encode(rendered.text.substr(0, byte), false, place);
    const size_t common = CommonPrefix(prefix, tokens.ids);
    const bool spanning = common < prefix.size() && common < tokens.ids.size();
    return common + (with_spanning && spanning ? 1 : 0);
  };
  for (const auto& [begin, end] : rendered.generation_spans) {
    if (begin == end) continue;
    const size_t first = tokens_before(begin, false);
    const size_t last = std::max(tokens_before(end, true), first);
    std::fill(tokens.supervised.begin() + static_cast<std::ptrdiff_t>(first),
              tokens.supervised.begin() + static_cast<std::ptrdiff_t>(last), true);
  }
}

void Packager::MarkAssistantTurns(Tokens& tokens, const Json& messages, const Json& tools,
                                  const std::string& place) const {
  // How many tokens the first `count` messages take of the whole conversation.
  const auto length_of = [&](size_t count) {
    if (count == 0) return size_t{0};
    if (count == messages.size()) return tokens.ids.size();
    const Json some(
        Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
    std::vector<int32_t> prefix = Encode(Render(some, tools, place).text, false, place);
    if (CommonPrefix(prefix, tokens.ids) < prefix.size() && !prefix.empty() &&
        prefix.back() == tokenizer_.eos_id()) {
      prefix.pop_back();
    }
    if (CommonPrefix(prefix, tokens.ids) < prefix.size()) {
      throw At(place, "the chat template renders the first " + std::to_string(count) +
                          " messages differently when others follow, so the assistant's tokens "
                          "cannot be told apart; " +
                          "use a template with {% generation %} blocks");
    }
    return prefix.size();
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].value("role", "") != "assistant") continue;
    const size_t first = length_of(i);
    const size_t last = std::max(length_of(i + 1), first);
    std::fill(tokens.supervised.begin() + static_cast<std::ptrdiff_t>(first),
              tokens.supervised.begin() + static_cast<std::ptrdiff_t>(last), true);
  }
}

Sample Packager::Finish(Tokens tokens, const std::string& place) const {
  std::vector<int32_t>& ids = tokens.ids;
  if (seq_length_ && static_cast<int64_t>(ids.size()) > *seq_length_) {
    if (!truncation_) {
      throw At(place, "the sample has " + std::to_string(ids.size()) +
                          " tokens, more than dataset.seq_length " + std::to_string(*seq_length_) +
                          "; raise it, or set dataset.truncation: true to keep the head");
    }
    ids.resize(static_cast<size_t>(*seq_length_));
  }
  Sample sample;
  const size_t length = ids.empty() ? 0 : ids.size() - 1;
  sample.input_ids.reserve(length);
  sample.labels.reserve(length);
  for (size_t i = 0; i < length; ++i) {
    sample.input_ids.push_back(ids[i]);
    sample.labels.push_back(!answer_only_ || tokens.supervised[i + 1] ? ids[i + 1] : -100);
  }
  const auto largest = std::max_element(ids.begin(), ids.end());
  if (largest != ids.end() && *largest >= vocab_size_) {
    throw At(place, "the tokenizer gives the id " + std::to_string(*largest) +
                        ", but the model has " + std::to_string(vocab_size_) +
                        " embeddings; do tokenizer and model belong together?");
  }
  if (pad_to_length_ && seq_length_ && length < static_cast<size_t>(*seq_length_)) {
    sample.input_ids.resize(static_cast<size_t>(*seq_length_), pad_id_);
    sample.labels.resize(static_cast<size_t>(*seq_length_), -100);
  }
  return sample;
}

}  // namespace am::engine
