// Tokenizer: text to ids and back, as the Hugging Face `tokenizers` package does it, read from a
// model directory.
//
// Reads tokenizer.json (BPE, byte-level BPE, BPE with byte fallback, Unigram), or a SentencePiece
// tokenizer.model, with tokenizer_config.json, special_tokens_map.json, added_tokens and
// chat_template.jinja beside it. Immutable after Load, so any number of threads may share one.
//
//   const Tokenizer tokenizer = Tokenizer::Load("/models/SmolLM2-135M-Instruct");
//   std::vector<int32_t> ids = tokenizer.Encode("The capital of France is", {.add_special_tokens =
//   true});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace am::text {

struct EncodeOptions {
  bool add_special_tokens = true;  // what the post-processor adds (bos, eos)
};

struct Pipeline;  // pipeline.h

class Tokenizer {
 public:
  // Throws am::Error (kUser) that names the file, what is wrong in it, and what would be
  // understood.
  static Tokenizer Load(const std::string& model_dir);
  static Tokenizer FromPipeline(Pipeline pipeline);  // for tests: without files around it

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // `text` is valid UTF-8 (ValidateUtf8 in utf8.h tells); invalid bytes throw am::Error (kUser)
  // with the byte's offset.
  std::vector<int32_t> Encode(std::string_view text, EncodeOptions options = {}) const;
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens = false) const;

  int64_t vocab_size() const;  // with added tokens
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;  // as configured; callers fall back to eos
  std::optional<int32_t> TokenToId(std::string_view token) const;
  bool add_bos_token() const;  // Encode with special tokens begins with bos
  bool add_eos_token() const;  // ... ends with eos
  std::string TokenText(
      std::optional<int32_t> id) const;  // "" for none; for templates' bos_token, eos_token
  // Name and text of each named special token, as templates see them: bos_token, eos_token, ...
  std::vector<std::pair<std::string, std::string>> special_tokens() const;

  // The chat template's source, empty when the model has none.
  const std::string& chat_template() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace am::text
