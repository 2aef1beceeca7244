// Whatever the template: a text or am::Error, in bounded time and memory.
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -I.
//   tests/fuzz/chat_template_fuzz.cc \
//     worker/text/chat_template.cc worker/text/jinja_*.cc worker/text/utf8.cc -licuuc -o
//     chat_template_fuzz &&
//     ./chat_template_fuzz -max_total_time=60 -timeout=30
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/error.h"
#include "worker/text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const am::text::RenderRequest request{
      .messages = nlohmann::ordered_json::parse(
          R"([{"role": "system", "content": "be é"}, {"role": "user", "content": "hi"},
              {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]}])"),
      .add_generation_prompt = true,
      .variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
      .now = 0};
  try {
    am::text::ChatTemplate::Parse(std::string(reinterpret_cast<const char*>(data), size))
        .Render(request);
  } catch (const am::Error&) {
  }
  return 0;
}
