// PostProcessor: the "post_processor" section of tokenizer.json: ids before and after those of the
// text.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace am::text {

struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  // Throws am::Error (kUser) for what is not understood.
  static PostProcessor Parse(const nlohmann::json& section);
};

}  // namespace am::text
