// Any bytes as a tokenizer.json, and as a SentencePiece model: a tokenizer or am::Error, in bounded
// time and memory. What loads then encodes and decodes a text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/error.h"
#include "worker/text/pipeline.h"
#include "worker/text/tokenizer.h"

namespace {

constexpr std::string_view kText =
    "The cat's 12345 naïve  café \n\n 你好 e\xCC\x81 <s> ▁x👩‍👩‍👧 "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

template <typename Load>
void Use(Load load) {
  try {
    const am::text::Tokenizer tokenizer = am::text::Tokenizer::FromPipeline(load());
    const auto ids = tokenizer.Encode(kText);
    tokenizer.Decode(ids);
    tokenizer.Decode(ids, true);
  } catch (const am::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == '{') {
    Use([&] { return am::text::LoadTokenizerJson(bytes, "fuzz.json"); });
  } else {
    am::text::SentencePieceFacts facts;
    Use([&] { return am::text::LoadSentencePiece(bytes, "fuzz.model", facts); });
  }
  return 0;
}
