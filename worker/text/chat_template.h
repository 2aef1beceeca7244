// ChatTemplate: the Jinja subset that Hugging Face chat templates use, compiled once, rendered per
// conversation.
//
// Output equals jinja2's with transformers' environment (trim_blocks, lstrip_blocks, loop controls,
// `tojson`, `raise_exception`, `strftime_now`, `{% generation %}`), byte for byte.
//
//   const ChatTemplate chat = ChatTemplate::Parse(tokenizer.chat_template());
//   std::string text = chat.Render({.messages = messages, .add_generation_prompt = true});
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace am::text {

struct RenderRequest {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;  // null: none
  bool add_generation_prompt = false;
  nlohmann::ordered_json variables =
      nlohmann::ordered_json::object();  // bos_token, eos_token, documents, ...
  std::optional<std::time_t> now;        // what strftime_now reads; the clock's when absent
};

struct Rendered {
  std::string text;
  // Byte ranges of `text` that stood inside {% generation %} blocks; empty when the template has
  // none.
  std::vector<std::pair<size_t, size_t>> generation_spans;
};

class ChatTemplate {
 public:
  // Throws am::Error (kUser): "chat template:LINE: what is wrong".
  static ChatTemplate Parse(const std::string& source);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Throws am::Error (kUser) with the template's own message when it calls raise_exception.
  Rendered Render(const RenderRequest& request) const;
  bool has_generation_blocks() const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace am::text
