#include "worker/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/error.h"

namespace am::text {
namespace {

// What a thread needs to match: PCRE2 asks for one of each per thread.
struct MatchState {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 16 << 20, nullptr);
  MatchState() {
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, 100'000'000);
    pcre2_set_heap_limit(context, 1 << 20);  // KiB
  }
  ~MatchState() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

std::string PcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  ~Code() { pcre2_code_free(code); }
};

Regex Regex::Compile(std::string_view pattern) {
  const std::string rewritten = RewriteOniguruma(pattern);
  static pcre2_compile_context* const context = [] {
    pcre2_compile_context* made = pcre2_compile_context_create(nullptr);
    pcre2_set_newline(made, PCRE2_NEWLINE_LF);
    return made;
  }();
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, context);
  if (code->code == nullptr) {
    throw UserError("the pattern `" + std::string(pattern) + "` (for PCRE2: `" + rewritten +
                    "`) is not understood at offset " + std::to_string(offset) + ": " +
                    PcreMessage(error));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Regex Regex::Literal(std::string text) {
  Regex regex;
  regex.literal_ = std::move(text);
  return regex;
}

bool Regex::Find(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  if (code_ == nullptr) {
    begin = text.find(literal_, from);
    end = begin + literal_.size();
    return begin != std::string_view::npos;
  }
  thread_local MatchState state;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int found = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_->jit) {
    found = pcre2_jit_match(code_->code, subject, text.size(), from, 0, state.data, state.context);
  }
  if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // no JIT here, or too deep for its stack: the
                                              // interpreter uses the heap
    found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                        state.data, state.context);
  }
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw UserError("a pattern of the tokenizer cannot be matched on this text: " +
                    PcreMessage(found));
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(state.data);
  begin = ovector[0];
  end = ovector[1];
  return true;
}

}  // namespace am::text
