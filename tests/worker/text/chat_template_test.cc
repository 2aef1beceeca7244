#include "worker/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/error.h"

namespace am::text {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::filesystem::path Corpus() {
  const char* source = std::getenv("AMCTL_SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/golden/chat_templates";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

Json Message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

std::string RenderText(const std::string& source, const RenderRequest& request = {}) {
  return ChatTemplate::Parse(source).Render(request).text;
}

std::string ErrorOf(const std::string& source, const RenderRequest& request = {}) {
  try {
    const std::string text = RenderText(source, request);
    return "no error but a text of " + std::to_string(text.size()) + " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
}

// {"text", "spans"}, or null where it is refused: what expected.json holds.
Json Outcome(const std::string& source, const RenderRequest& request) {
  try {
    const Rendered rendered = ChatTemplate::Parse(source).Render(request);
    return {{"text", rendered.text}, {"spans", rendered.generation_spans}};
  } catch (const Error&) {
    return nullptr;
  }
}

TEST(ChatTemplate, EqualsJinja2OnTemplatesOfManyFamilies) {
  const Json expected = Json::parse(ReadFile(Corpus() / "expected.json"));
  const Json conversations = Json::parse(ReadFile(Corpus() / "conversations.json"));
  int compared = 0;
  for (const auto& [name, outcomes] : expected.at("templates").items()) {
    const std::string source = ReadFile(Corpus() / (name + ".jinja"));
    for (const Json& conversation : conversations) {
      RenderRequest request{
          .messages = conversation.at("messages"),
          .add_generation_prompt = conversation.value("add_generation_prompt", false),
          .variables = expected.at("tokens")};
      if (conversation.contains("tools")) request.tools = conversation.at("tools");
      request.variables.update(conversation.value("variables", Json::object()));
      const std::string key = conversation.at("name");
      EXPECT_EQ(Outcome(source, request), outcomes.at(key)) << name << " with " << key;
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(ChatTemplate, EqualsJinja2OnEachConstruct) {
  const Json expected = Json::parse(ReadFile(Corpus() / "expected.json"));
  const Json snippets = Json::parse(ReadFile(Corpus() / "snippets.json"));
  const Json& outcomes = expected.at("snippets");
  ASSERT_EQ(snippets.size(), outcomes.size());
  const RenderRequest request{.messages = expected.at("snippet_request").at("messages"),
                              .variables = expected.at("snippet_request").at("variables")};
  for (size_t i = 0; i < snippets.size(); ++i) {
    EXPECT_EQ(Outcome(snippets[i], request), outcomes[i]) << snippets[i];
  }
}

TEST(ChatTemplate, NamesTheLineOfASyntaxError) {
  EXPECT_EQ(ErrorOf("a\nb\n{% if x %}\n{{ 1 + }}"),
            "chat template:4: unexpected 'end of print statement'");
  EXPECT_THAT(
      ErrorOf("{% if x %}\n"),
      AllOf(StartsWith("chat template:1: Unexpected end of template"), HasSubstr("'endif'")));
  EXPECT_THAT(ErrorOf("\n{% include 'x' %}"),
              AllOf(StartsWith("chat template:2: "), HasSubstr("'include' is not supported")));
  EXPECT_EQ(ErrorOf("{{ x|shout }}"), "chat template:1: No filter named 'shout'.");
  EXPECT_THAT(ErrorOf("ok\n\xff"), StartsWith("chat template:2: invalid UTF-8 at byte 3"));
}

TEST(ChatTemplate, NamesTheLineOfARuntimeError) {
  EXPECT_EQ(ErrorOf("\n{{ raise_exception('Roles must alternate') }}"),
            "chat template:2: Roles must alternate");
  EXPECT_EQ(ErrorOf("\n\n{{ a.b.c }}"), "chat template:3: 'a' is undefined");
  EXPECT_EQ(ErrorOf("{{ messages[0].tool.name }}", {.messages = {Message("user", "x")}}),
            "chat template:1: 'dict object' has no attribute 'tool'");
  EXPECT_THAT(ErrorOf("{{ messages.append(1) }}"),
              HasSubstr("access to attribute 'append' of 'list' object is unsafe"));
}

TEST(ChatTemplate, RefusesInvalidUtf8InAConversation) {
  EXPECT_THAT(ErrorOf("{{ messages }}", {.messages = {Message("user", "a\xc3(")}}),
              HasSubstr("invalid UTF-8 at byte 1"));
}

TEST(ChatTemplate, TellsWhereTheAssistantSpeaks) {
  const ChatTemplate chat = ChatTemplate::Parse(
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
      "endgeneration %}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_TRUE(chat.has_generation_blocks());
  const Rendered rendered =
      chat.Render({.messages = {Message("user", "é?"), Message("assistant", "ja"),
                                Message("user", "!"), Message("assistant", "ü")}});
  EXPECT_EQ(rendered.text, "é?ja!ü");
  EXPECT_THAT(rendered.generation_spans,
              ::testing::ElementsAre(::testing::Pair(3, 5), ::testing::Pair(6, 8)));
  EXPECT_FALSE(ChatTemplate::Parse("{{ messages }}").has_generation_blocks());
}

TEST(ChatTemplate, ReadsTheGivenClock) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(RenderText("{{ strftime_now('%d %b %Y %H:%M') }}", {.now = 86400}),
            "02 Jan 1970 00:00");
}

TEST(ChatTemplate, PassesVariablesAndTools) {
  EXPECT_EQ(
      RenderText("{{ bos_token }}{{ tools[0].name }}{{ tools | tojson }}",
                 {.tools = Json::array({{{"name", "f"}}}), .variables = {{"bos_token", "<s>"}}}),
      "<s>f[{\"name\": \"f\"}]");
  EXPECT_EQ(RenderText("{{ tools }}|{{ documents }}|{{ add_generation_prompt }}"),
            "None|None|False");
}

// Hostile templates must end with an error, soon, without exhausting stack or memory.
struct Hostile {
  std::string source;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.source.substr(0, 80); }
class HostileTemplate : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileTemplate, FailsWithAnError) {
  EXPECT_THAT(ErrorOf(GetParam().source), StartsWith("chat template:"));
}

std::string Repeated(const std::string& piece, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += piece;
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Limits, HostileTemplate,
    ::testing::Values(
        Hostile{"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
        Hostile{"{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) "
                "%}{% "
                "endfor %}{% endfor %}{% endfor %}"},
        Hostile{"{{ range(1000000) }}"}, Hostile{"{{ 'a' * 10 ** 12 }}"},
        Hostile{"{{ [1] * 10 ** 12 }}"},
        Hostile{
            "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% "
            "endfor %}"},
        Hostile{
            "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% "
            "endfor %}"},
        Hostile{
            "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = [ns.x.index] "
            "%}{% endfor %}"},
        Hostile{"{% set ns = namespace(x=[1]) %}{% for i in range(150) %}{% set ns.x = [ns.x, "
                "ns.x] %}{% "
                "endfor %}{{ ns.x }}"},
        Hostile{"{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}"},
        Hostile{"{{ 'a'.center(10 ** 15) }}"}, Hostile{"{{ '%1000000000d' % 1 }}"},
        Hostile{"{{ 'a' | indent(10 ** 12) }}"}, Hostile{"{{ 2 ** 1000 }}"},
        Hostile{"{{ 9223372036854775807 + 1 }}"}, Hostile{"{{ -9223372036854775807 - 2 }}"},
        Hostile{"{{ " + Repeated("(", 100000)}, Hostile{Repeated("{{ ", 1) + Repeated("[", 100000)},
        Hostile{"{{ " + Repeated("not ", 100000) + "1 }}"},
        Hostile{"{{ " + Repeated("-", 100000) + "1 }}"},
        Hostile{"{{ 1" + Repeated(" + 1", 100000) + " }}"},
        Hostile{"{{ a" + Repeated(".a", 100000) + " }}"},
        Hostile{"{{ a" + Repeated("|list", 100000) + " }}"},
        Hostile{Repeated("{% if 1 %}", 100000)},
        Hostile{"{{ " + Repeated("1 if 1 else ", 100000) + "1 }}"},
        Hostile{"{% for " + Repeated("(", 100000) + "a in b %}"},
        Hostile{"{{ 'x' }}{% set a = " + Repeated("{1:", 100000)}));

TEST(ChatTemplate, SurvivesValuesThatReferToThemselves) {
  EXPECT_EQ(RenderText("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.list = [ns] %}{{ "
                       "ns.me.me.list|length }}"),
            "1");
  EXPECT_EQ(RenderText("{% set ns = namespace(f=none) %}{% for i in range(20000) %}{% macro "
                       "g(old=ns.f) %}{{ i }}{% endmacro %}"
                       "{% set ns.f = g %}{% endfor %}{{ ns.f() }}"),
            "19999");
  EXPECT_EQ(RenderText("{% set ns = namespace(n=none) %}{% for i in range(20000) %}{% set ns.n = "
                       "namespace(n=ns.n) %}{% endfor %}"
                       "{{ ns.n.n.n is defined }}"),
            "True");
}

TEST(ChatTemplate, RendersALongConversationQuickly) {
  Json messages = Json::array();
  for (int i = 0; i < 2000; ++i)
    messages.push_back(Message(i % 2 == 0 ? "user" : "assistant", Repeated("word ", 200)));
  const std::string text = RenderText(
      "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m['content'] | trim + '\\n' }}{% endfor %}",
      {.messages = messages});
  EXPECT_GT(text.size(), 1900000u);
}

}  // namespace
}  // namespace am::text
