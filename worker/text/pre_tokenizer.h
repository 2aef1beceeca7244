// PreTokenizer: the "pre_tokenizer" section of tokenizer.json, which cuts text into the words that
// the model encodes.
//
// A word runs through all steps before the next one is cut, so no list of words is ever built.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "worker/text/function_ref.h"

namespace am::text {

class PreTokenizer {
 public:
  struct Piece {
    std::string_view text;
    bool at_start;  // begins where the whole input does
  };
  using Sink = FunctionRef<void(Piece)>;
  using Step = std::function<void(Piece, Sink)>;

  PreTokenizer() = default;
  // `section` is the section's value, or null. With `bytes_for_model` a last ByteLevel step hands
  // on the bytes themselves instead of spelling them in its alphabet, and byte_level() tells so.
  // Throws am::Error (kUser) for what is not understood.
  static PreTokenizer Parse(const nlohmann::json& section, bool bytes_for_model);

  bool byte_level() const { return byte_level_; }
  bool identity() const { return steps_.empty(); }
  // Calls sink for every word of `piece` in order; words are not empty and live during the call.
  void Run(Piece piece, Sink sink) const { RunFrom(0, piece, sink); }
  void Add(Step step) { steps_.push_back(std::move(step)); }

 private:
  void ParseInto(const nlohmann::json& section, bool last, bool bytes_for_model);
  void RunFrom(size_t step, Piece piece, Sink sink) const;

  std::vector<Step> steps_;
  bool byte_level_ = false;
};

}  // namespace am::text
