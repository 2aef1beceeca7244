#include "worker/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "common/error.h"
#include "common/exit_status.h"
#include "worker/text/tokenize_stream.h"

namespace am::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model directory with the files given, removed at the end.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "tokenizer-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory& With(const std::string& name, const std::string& content) {
    std::ofstream(path_ / name) << content;
    return *this;
  }
  std::string path() const { return path_.string(); }
  Tokenizer Load() const { return Tokenizer::Load(path()); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kByteLevel = R"({
  "version": "1.0",
  "added_tokens": [{"id": 9, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "Ġab": 5, "Ã": 6, "©": 7, "Ã©": 8},
            "merges": ["a b", ["Ġ", "ab"], "Ã ©"]}
})";

TEST(Tokenizer, MergesBytesAndAddsWhatThePostProcessorSays) {
  const Tokenizer tokenizer = Directory()
                                  .With("tokenizer.json", kByteLevel)
                                  .With("tokenizer_config.json", R"({"bos_token": "<s>"})")
                                  .Load();
  EXPECT_THAT(tokenizer.Encode("ab ab"), ElementsAre(9, 4, 5));
  EXPECT_THAT(tokenizer.Encode("é<s>c", {.add_special_tokens = false}), ElementsAre(8, 9, 2));
  EXPECT_THAT(tokenizer.Encode("", {.add_special_tokens = false}), IsEmpty());
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{9, 4, 5, 8}), "<s>ab abé");
  EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{9, 4, 6, 1234, -1}, true), "ab\uFFFD");
  EXPECT_EQ(tokenizer.bos_id(), 9);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
  EXPECT_TRUE(tokenizer.add_bos_token());
  EXPECT_FALSE(tokenizer.add_eos_token());
  EXPECT_EQ(tokenizer.vocab_size(), 10);
  EXPECT_EQ(tokenizer.TokenToId("Ġab"), 5);
  EXPECT_EQ(tokenizer.TokenText(9), "<s>");
  EXPECT_EQ(tokenizer.TokenText(std::nullopt), "");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = Directory().With("tokenizer.json", kByteLevel).Load();
  try {
    tokenizer.Encode("ab\xFF");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), HasSubstr("offset 2"));
  }
}

TEST(Tokenizer, ServesManyThreads) {
  const Tokenizer tokenizer = Directory().With("tokenizer.json", kByteLevel).Load();
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const std::string text(static_cast<size_t>(i), 'a');
        EXPECT_EQ(tokenizer.Encode(text).size(), static_cast<size_t>(i) + 1);
      }
    });
  }
}

TEST(Tokenizer, ChatTemplateFileWinsOverTheConfiguration) {
  Directory directory;
  directory.With("tokenizer.json", kByteLevel)
      .With(
          "tokenizer_config.json",
          R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(directory.Load().chat_template(), "d");
  EXPECT_EQ(directory.With("chat_template.jinja", "file").Load().chat_template(), "file");
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Tokenizer, NamesFileAndFaultOfABrokenTokenizerJson) {
  const std::string good = kByteLevel;
  const std::pair<std::string, const char*> cases[] = {
      {"", "truncated"},
      {good.substr(0, good.size() / 2), "tokenizer.json:"},
      {"[]", "expected an object, found an array"},
      {"{}", "model: missing"},
      {good + "x", "nothing was expected after the end"},
      {Replaced(good, "\"1.0\"", "\"2.0\""), "version: `2.0`"},
      {Replaced(good, "\"BPE\"", "\"Magic\""),
       "model.type: `Magic` is not understood; understood: BPE"},
      {Replaced(good, "\"a\": 0", "\"a\": -1"), "the id of `a` is -1"},
      {Replaced(good, "\"a\": 0", "\"a\": 99999999999"), "the id of `a` is 99999999999"},
      {Replaced(good, "\"a\": 0", "\"a\": \"0\""), "expected an integer, found a string"},
      {Replaced(good, "\"a b\"", "\"a z\""),
       "merge 0 joins `a` and `z`, but `z` is not in the vocabulary"},
      {Replaced(good, "\"a b\"", "\"a\""), "expected two tokens with a space"},
      {Replaced(good, "\"normalizer\": null", R"("normalizer": {"type": "Rot13"})"),
       "normalizer: the type `Rot13`"},
      {Replaced(good, "\"normalizer\": null",
                R"("normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": ""})"),
       "the pattern `(`"},
      {Replaced(good, "\"normalizer\": null",
                R"("normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"})"),
       "character map is damaged"},
      {Replaced(good, R"("type": "ByteLevel", "add_prefix_space": false)",
                R"("type": "Split", "pattern": 1)"),
       "pre_tokenizer: "},
      {Replaced(good, R"("ids": [9])", R"("ids": ["x"])"),
       "post_processor: a token id was expected"},
      {Replaced(good, R"("decoder": {"type": "ByteLevel"})", R"("decoder": 7)"),
       "decoder: expected an object"},
      {Replaced(good, "\"model\": {", R"("model": {"dropout": 0.1, )"), "model.dropout"},
      {Replaced(good, "<s>\", \"single", "\xFF\", \"single"), "not UTF-8 at byte"},
      {std::string(200, '['), "expected an object"},
      {"{\"x\": " + std::string(200, '['), "nested deeper than"},
      {Replaced(good, "\"a\": 0", "\"\\ud800\": 0"), "surrogate"},
  };
  for (const auto& [content, message] : cases) {
    Directory directory;
    directory.With("tokenizer.json", content);
    try {
      directory.Load();
      ADD_FAILURE() << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(directory.path() + "/tokenizer.json")) << content;
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }
}

TEST(Tokenizer, NamesWhatADirectoryLacks) {
  EXPECT_THROW(Tokenizer::Load("/nonexistent"), Error);
  try {
    Directory().Load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no tokenizer.json and no tokenizer.model"));
  }
  try {
    Directory().With("tokenizer.model", "\x0A\xFF").Load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokenizer.model: error: not a SentencePiece model"));
  }
  try {
    Directory()
        .With("tokenizer.json", kByteLevel)
        .With("tokenizer_config.json", "{\"bos_token\": ")
        .Load();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tokenizer_config.json:1:"));
  }
}

struct Streamed {
  int status;
  std::string out, err;
};
Streamed Stream(std::vector<std::string> args, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int status = RunTokenizeStream(args, in, out, err);
  return {status, out.str(), err.str()};
}

TEST(TokenizeStream, TakesJsonLinesAndGivesJsonLines) {
  Directory directory;
  directory.With("tokenizer.json", kByteLevel)
      .With(
          "tokenizer_config.json",
          R"({"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"})");
  const std::string dir = directory.path();
  EXPECT_EQ(Stream({dir}, "\"ab\"\n\"\\u00e9 ab\"\n").out, "[9,4]\n[9,8,5]\n");
  EXPECT_EQ(Stream({dir, "--no-special-tokens"}, "\"ab\"").out, "[4]\n");
  EXPECT_EQ(Stream({"--decode", dir}, "[9,4]\n[]\n").out, "\"<s>ab\"\n\"\"\n");
  EXPECT_EQ(Stream({dir, "--decode", "--skip-special-tokens"}, "[9,4]").out, "\"ab\"\n");
  EXPECT_EQ(Stream({dir, "--render"}, R"([{"role": "user", "content": "a\nb"}])").out,
            "\"<s>a\\nb\"\n");
  EXPECT_EQ(
      Stream({dir, "--chat"}, R"({"messages": [{"role": "user", "content": "ab"}], "tools": null})")
          .out,
      "[9,4]\n");
  EXPECT_EQ(Stream({dir, "--lossy", "--no-special-tokens"}, "\"a\xFF\"\n\"b\"").out, "[0]\n[1]\n");
}

TEST(TokenizeStream, NamesTheLineOfAnError) {
  Directory directory;
  directory.With("tokenizer.json", kByteLevel);
  const std::string dir = directory.path();
  const std::tuple<std::vector<std::string>, std::string, const char*> cases[] = {
      {{dir}, "\"a\"\n\"b\xFF\"\n", "line 2: error: not UTF-8: invalid byte at column 3; --lossy"},
      {{dir}, "\"a\"\n\n[1]\n", "line 3: error: expected a JSON string, found array"},
      {{dir}, "nonsense\n", "line 1: error: not JSON"},
      {{dir, "--decode"}, "[1.5]\n", "line 1: error: expected a token id, found 1.5"},
      {{dir, "--decode"}, "[-1]\n", "line 1: error: expected a token id, found -1"},
      {{dir, "--chat"}, "[]\n", "no chat template"},
      {{dir, "--bogus"}, "", "unknown option `--bogus`"},
      {{}, "", "no model directory"},
      {{dir, "--chat", "--decode"}, "", "exclude one another"},
      {{"/nonexistent"}, "", "no such directory"},
  };
  for (const auto& [args, input, message] : cases) {
    const Streamed result = Stream(args, input);
    EXPECT_EQ(result.status, kExitUsage) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

}  // namespace
}  // namespace am::text
