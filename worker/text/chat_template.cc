#include "worker/text/chat_template.h"

#include <algorithm>
#include <ctime>

#include "common/error.h"
#include "worker/text/jinja_ast.h"
#include "worker/text/jinja_evaluator.h"
#include "worker/text/jinja_lexer.h"
#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

// About a second of work; a conversation of a million tokens needs a hundredth of it.
constexpr uint64_t kMaxWork = 10'000'000;

Error At(int line, const std::string& what) {
  return UserError("chat template:" + std::to_string(line) + ": " + what);
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::TemplateTree tree;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::Parse(const std::string& source) {
  if (const auto offset = FindInvalidUtf8(source)) {
    const auto line =
        1 + std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(*offset), '\n');
    throw At(static_cast<int>(line), "invalid UTF-8 at byte " + std::to_string(*offset));
  }
  auto impl = std::make_unique<Impl>();
  try {
    impl->tree = jinja::ParseTemplate(source);
  } catch (const jinja::SyntaxFailure& failure) {
    throw At(failure.line, failure.what());
  } catch (const jinja::Failure& failure) {
    throw At(1, failure.what());
  }
  return ChatTemplate(std::move(impl));
}

Rendered ChatTemplate::Render(const RenderRequest& request) const {
  const jinja::WorkMeter meter(kMaxWork);
  jinja::Evaluator evaluator(impl_->tree, request.now.value_or(std::time(nullptr)));
  Rendered rendered;
  try {
    evaluator.SetVariable("messages", jinja::Value::FromJson(request.messages));
    evaluator.SetVariable("tools", jinja::Value::FromJson(request.tools));
    evaluator.SetVariable("documents", jinja::Value::None());
    evaluator.SetVariable("add_generation_prompt",
                          jinja::Value::Bool(request.add_generation_prompt));
    for (const auto& [name, value] : request.variables.items()) {
      evaluator.SetVariable(name, jinja::Value::FromJson(value));
    }
    rendered.text = evaluator.Run();
  } catch (const jinja::Failure& failure) {
    throw At(evaluator.line(), failure.what());
  }
  for (const auto& [offset, code_points] : evaluator.generations()) {
    const size_t begin = std::min(offset, rendered.text.size());
    const std::string_view rest = std::string_view(rendered.text).substr(begin);
    rendered.generation_spans.emplace_back(begin, begin + jinja::OffsetOf(rest, code_points));
  }
  return rendered;
}

bool ChatTemplate::has_generation_blocks() const { return impl_->tree.has_generation; }

}  // namespace am::text
