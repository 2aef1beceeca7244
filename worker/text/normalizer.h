// Normalizer: the "normalizer" section of tokenizer.json, a list of rewritings of the text between
// added tokens.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace am::text {

// A stretch of text on its way through the pipeline.
struct Segment {
  std::string text;
  bool at_start = false;  // its first character is the first of the whole input (Metaspace's
                          // prepend_scheme "first")
};

class Normalizer {
 public:
  Normalizer() = default;
  // `section` is the section's value, or null. Throws am::Error (kUser) for what is not understood.
  static Normalizer Parse(const nlohmann::json& section);

  bool identity() const { return steps_.empty(); }
  void Apply(Segment& segment) const {
    for (const Step& step : steps_) step(segment);
  }
  using Step = std::function<void(Segment&)>;
  void Add(Step step) { steps_.push_back(std::move(step)); }

 private:
  void ParseInto(const nlohmann::json& section);
  std::vector<Step> steps_;
};

}  // namespace am::text
