// Packaging and the squad kind, with a tokenizer made on the spot and, where the shared data is
// there, the golden batches of the real model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/data/packaging.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kVocab = 300;

// A byte-level tokenizer without merges: an id a byte, and <s> </s> <|user|> <|assistant|> from 256
// on.
void WriteByteTokenizer(const fs::path& dir, const std::string& chat_template) {
  const auto letter = [](int byte) {
    const bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    int code = byte;
    if (!plain) {
      code = 256;
      for (int b = 0; b < byte; ++b)
        code += (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174 ? 0 : 1;
    }
    std::string out;
    if (code < 0x80) return out += static_cast<char>(code);
    out += static_cast<char>(0xC0 | (code >> 6));
    return out += static_cast<char>(0x80 | (code & 63));
  };
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[letter(byte)] = byte;
  Json added = Json::array();
  int id = 256;
  for (const char* token : {"<s>", "</s>", "<|user|>", "<|assistant|>"}) {
    added.push_back({{"id", id++},
                     {"content", token},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added},
                          {"normalizer", nullptr},
                          {"pre_tokenizer",
                           {{"type", "ByteLevel"},
                            {"add_prefix_space", false},
                            {"trim_offsets", true},
                            {"use_regex", true}}},
                          {"post_processor", nullptr},
                          {"decoder",
                           {{"type", "ByteLevel"},
                            {"add_prefix_space", true},
                            {"trim_offsets", true},
                            {"use_regex", true}}},
                          {"model",
                           {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"vocab", vocab},
                            {"merges", Json::array()}}}};
  Json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  std::ofstream(dir / "tokenizer.json") << tokenizer.dump();
  std::ofstream(dir / "tokenizer_config.json") << config.dump();
}

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content ~ eos_token }}{% endfor %}";
constexpr const char* kGenerationTemplate =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ "
    "m.content }}{{ eos_token }}"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

class SquadTest : public ::testing::Test {
 protected:
  SquadTest() : dir_(fs::path(::testing::TempDir()) / ("squad-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~SquadTest() override { fs::remove_all(dir_); }

  text::Tokenizer Tokenizer(const std::string& chat_template = "") {
    WriteByteTokenizer(dir_, chat_template);
    return text::Tokenizer::Load(dir_.string());
  }

  std::string Record(const std::string& answers) {
    return R"({"context": "C", "question": "Q", "answers": )" + answers + "}\n";
  }

  DatasetSpec Spec(const std::string& lines) {
    std::ofstream(dir_ / "train.jsonl", std::ios::binary) << lines;
    return {.path = dir_.string()};
  }

  std::string ErrorOf(const DatasetSpec& spec, const text::Tokenizer& tokenizer,
                      const std::string& chat = "", int64_t vocab = kVocab) {
    try {
      const auto data = MakeDataset(spec, &tokenizer, chat, vocab);
      for (int64_t i = 0; i < data->size(); ++i) data->Get(i);
      return "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
  }

  // The text whose tokens carry labels.
  static std::string Learnt(const Sample& sample, const text::Tokenizer& tokenizer) {
    std::vector<int32_t> ids;
    for (const int64_t label : sample.labels) {
      if (label != -100) ids.push_back(static_cast<int32_t>(label));
    }
    return tokenizer.Decode(ids);
  }

  fs::path dir_;
};

TEST_F(SquadTest, LearnsTheAnswerBehindThePrompt) {
  const auto tokenizer = Tokenizer();
  const auto data =
      MakeDataset(Spec(Record(R"({"text": [" blue \n", "x"]})")), &tokenizer, "", kVocab);
  const Sample sample = data->Get(0);
  const std::string prompt = "Context: C Question: Q Answer: ";
  ASSERT_EQ(sample.input_ids.size(), prompt.size() + 4 - 1);
  ASSERT_EQ(sample.labels.size(), sample.input_ids.size());
  EXPECT_EQ(Learnt(sample, tokenizer), "blue");
  for (size_t i = 0; i + 1 < prompt.size(); ++i) EXPECT_EQ(sample.labels[i], -100);
  EXPECT_EQ(sample.labels[prompt.size() - 1], 'b');
}

TEST_F(SquadTest, LearnsTheAssistantsTurnWithItsHeader) {
  const auto tokenizer = Tokenizer(kTemplate);
  const auto data = MakeDataset(Spec(Record(R"([{"text": "blue"}])")), &tokenizer, "", kVocab);
  EXPECT_EQ(Learnt(data->Get(0), tokenizer), "<|assistant|>blue</s>");
}

TEST_F(SquadTest, LearnsWhatStandsInGenerationBlocks) {
  const auto tokenizer = Tokenizer(kTemplate);
  const auto data =
      MakeDataset(Spec(Record(R"({"text": ["bläu"]})")), &tokenizer, kGenerationTemplate, kVocab);
  EXPECT_EQ(Learnt(data->Get(0), tokenizer), "bläu</s>");
}

TEST_F(SquadTest, LearnsEverythingWhereTheMaskIsOff) {
  const auto tokenizer = Tokenizer();
  DatasetSpec spec = Spec(Record(R"({"text": ["blue"]})"));
  spec.answer_only_loss_mask = false;
  EXPECT_EQ(Learnt(MakeDataset(spec, &tokenizer, "", kVocab)->Get(0), tokenizer),
            "ontext: C Question: Q Answer: blue");
}

TEST_F(SquadTest, KeepsAnEmptyAnswerWithoutLabels) {
  const auto tokenizer = Tokenizer();
  const Sample sample =
      MakeDataset(Spec(Record(R"({"text": [""]})")), &tokenizer, "", kVocab)->Get(0);
  EXPECT_FALSE(sample.input_ids.empty());
  EXPECT_THAT(sample.labels, Each(-100));
}

TEST_F(SquadTest, NamesARecordWithoutAnswerOrField) {
  const auto tokenizer = Tokenizer();
  const std::string file = (dir_ / "train.jsonl").string();
  EXPECT_EQ(ErrorOf(Spec(Record(R"({"text": ["a"]})") + Record(R"({"text": []})")), tokenizer),
            file + ":2: error: the field 'answers' holds no answer; give one or remove the record");
  EXPECT_EQ(ErrorOf(Spec("{\"context\": \"C\", \"answers\": {\"text\": [\"a\"]}}"), tokenizer),
            file + ":1: error: the field 'question' is missing; the record has: context, answers");
  EXPECT_THAT(ErrorOf(Spec(Record("\"blue\"")), tokenizer),
              HasSubstr("train.jsonl:1: error: the field 'answers' must be"));
  EXPECT_THAT(ErrorOf(Spec(Record("{\"text\": [3]}")), tokenizer),
              HasSubstr("must be a string, got number"));
}

TEST_F(SquadTest, RefusesOrCutsWhatIsTooLong) {
  const auto tokenizer = Tokenizer();
  DatasetSpec spec = Spec(Record(R"({"text": ["blue"]})"));
  spec.seq_length = 33;
  EXPECT_THAT(
      ErrorOf(spec, tokenizer),
      HasSubstr("train.jsonl:1: error: the sample has 35 tokens, more than dataset.seq_length 33"));
  spec.truncation = true;
  const Sample sample = MakeDataset(spec, &tokenizer, "", kVocab)->Get(0);
  EXPECT_THAT(sample.input_ids, SizeIs(32));
  EXPECT_EQ(Learnt(sample, tokenizer), "bl");
  spec.seq_length = 1;
  EXPECT_THAT(ErrorOf(spec, tokenizer), HasSubstr("leaves nothing to predict"));
}

TEST_F(SquadTest, PadsToTheLengthWhereAsked) {
  const auto tokenizer = Tokenizer();
  DatasetSpec spec = Spec(Record(R"({"text": ["blue"]})"));
  spec.seq_length = 40;
  spec.padding = "max_length";
  const Sample sample = MakeDataset(spec, &tokenizer, "", kVocab)->Get(0);
  ASSERT_THAT(sample.input_ids, SizeIs(40));
  ASSERT_THAT(sample.labels, SizeIs(40));
  EXPECT_EQ(sample.input_ids.back(), 257)
      << "the end-of-text token where there is no padding token";
  EXPECT_EQ(Learnt(sample, tokenizer), "blue");
}

TEST_F(SquadTest, NamesTheRecordThatATemplateRefuses) {
  const auto tokenizer = Tokenizer();
  const DatasetSpec spec = Spec(Record(R"({"text": ["a"]})"));
  EXPECT_THAT(ErrorOf(spec, tokenizer, "\n{{ raise_exception('no') }}"),
              HasSubstr("train.jsonl:1: error: chat template:2: no"));
  EXPECT_THAT(ErrorOf(spec, tokenizer, "{{ messages|length }}{{ messages[0].content }}"),
              HasSubstr("renders the first 1 messages differently when others follow"));
  EXPECT_THAT(ErrorOf(spec, tokenizer, "{% if %}"), HasSubstr("chat template:1: "));
}

TEST_F(SquadTest, RefusesATokenizerOfAnotherModel) {
  const auto tokenizer = Tokenizer(kTemplate);
  EXPECT_THAT(ErrorOf(Spec(Record(R"({"text": ["a"]})")), tokenizer, "", 256),
              HasSubstr("the model has 256 embeddings"));
}

TEST_F(SquadTest, SeparatesTheTurnsOfAConversation) {
  const auto tokenizer = Tokenizer(kTemplate);
  const Packager packager({}, tokenizer, "", kVocab);
  const Json messages = {{{"role", "user"}, {"content", "1"}},
                         {{"role", "assistant"}, {"content", "2"}},
                         {{"role", "user"}, {"content", "3"}},
                         {{"role", "assistant"}, {"content", "4"}}};
  EXPECT_EQ(Learnt(packager.Chat(messages, nullptr, "here"), tokenizer),
            "<|assistant|>2</s><|assistant|>4</s>");
  EXPECT_THROW(packager.Chat({{{"role", "user"}, {"content", "1"}}}, nullptr, "here"), Error);
}

// Against batches that transformers made of the real model's tokenizer and template.
TEST(SquadGolden, EqualsTheRecordedBatchesOfFour) {
  const auto place = [](const char* variable, const fs::path& otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr ? fs::path(given) : otherwise;
  };
  const fs::path source = place("AMCTL_SOURCE_DIR", ".");
  const fs::path shared = place("AMCTL_TEST_DATA", source.parent_path() / "shared");
  const fs::path model = place("AMCTL_MODEL_DIR", source / ".cache/inputs/SmolLM2-135M-Instruct");
  const fs::path golden = shared / "oracle/golden/eval.json";
  if (!fs::exists(golden)) GTEST_SKIP() << golden << " is absent: AMCTL_TEST_DATA names its place";
  if (!fs::exists(model / "tokenizer.json"))
    GTEST_SKIP() << model << " is absent: AMCTL_MODEL_DIR names its place";
  const auto tokenizer = text::Tokenizer::Load(model.string());
  const DatasetSpec spec{.path = (shared / "data/wordnet_squad").string(), .seq_length = 512};
  const auto data = MakeDataset(spec, &tokenizer, "", 49152);
  EXPECT_EQ(data->size(), 8000);
  const Json recorded = Json::parse(std::ifstream(golden));
  int64_t index = 0;
  for (const Json& batch : recorded.at("masked_ce")) {
    for (size_t row = 0; row < batch.at("input_ids").size(); ++row, ++index) {
      const Sample sample = data->Get(index);
      auto ids = batch.at("input_ids")[row].get<std::vector<int64_t>>();
      auto labels = batch.at("labels")[row].get<std::vector<int64_t>>();
      ASSERT_GE(ids.size(), sample.input_ids.size());
      for (size_t i = sample.labels.size(); i < labels.size(); ++i)
        ASSERT_EQ(labels[i], -100) << index;
      ids.resize(sample.input_ids.size());
      labels.resize(sample.labels.size());
      EXPECT_EQ(sample.input_ids, ids) << "sample " << index;
      EXPECT_EQ(sample.labels, labels) << "sample " << index;
    }
  }
  EXPECT_EQ(index, 32);
}

}  // namespace
}  // namespace am::engine
