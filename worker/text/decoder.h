// Decoder: the "decoder" section of tokenizer.json: token texts back to text.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace am::text {

class Decoder {
 public:
  using Step = std::function<void(std::vector<std::string>& tokens)>;

  Decoder() = default;
  // `section` is the section's value, or null: tokens are then joined by spaces.
  // Throws am::Error (kUser) for what is not understood.
  static Decoder Parse(const nlohmann::json& section);

  std::string Decode(std::vector<std::string> tokens) const;
  void Add(Step step) { steps_.push_back(std::move(step)); }

  // Steps that SentencePiece models need too.
  static Step Replace(std::string from, std::string to);
  static Step ByteFallback();
  static Step Fuse();
  static Step Strip(char32_t content, size_t start, size_t stop);

 private:
  void ParseInto(const nlohmann::json& section);
  std::vector<Step> steps_;
};

}  // namespace am::text
