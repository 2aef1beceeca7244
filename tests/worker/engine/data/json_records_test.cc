#include "worker/engine/data/json_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class JsonRecordsTest : public ::testing::Test {
 protected:
  JsonRecordsTest()
      : dir_(fs::path(::testing::TempDir()) / ("records-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~JsonRecordsTest() override { fs::remove_all(dir_); }

  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = dir_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

  static std::vector<int> Values(const JsonRecords& records) {
    std::vector<int> out;
    for (int64_t i = 0; i < records.size(); ++i)
      out.push_back(records.Get(i).value.at("a").get<int>());
    return out;
  }

  static std::vector<int> Values(const std::string& path, const std::string& split = "train",
                                 JsonRecords::Options options = {}) {
    return Values(JsonRecords::Open(path, split, options));
  }

  static std::string ErrorOf(const std::string& path, const std::string& split = "train",
                             JsonRecords::Options options = {}) {
    try {
      Values(path, split, options);
      return "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return error.what();
    }
  }

  fs::path dir_;
};

TEST_F(JsonRecordsTest, ReadsLinesWithBlankOnesAndWithoutALastNewline) {
  const std::string path = Write("x.jsonl", "\n{\"a\": 1}\r\n\n  \n{\"a\": 2}\n{\"a\": 3}");
  const JsonRecords records = JsonRecords::Open(path, "train", {});
  EXPECT_EQ(Values(records), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(records.Get(1).place, path + ":5");
}

TEST_F(JsonRecordsTest, ReadsAnArray) {
  const std::string path = Write(
      "x.json", " [\n{\"a\": 1, \"t\": \"}]\\\"{\"},\n\n {\"a\": 2, \"b\": [{\"c\": []}]}\n]\n");
  const JsonRecords records = JsonRecords::Open(path, "train", {});
  EXPECT_EQ(Values(records), (std::vector<int>{1, 2}));
  EXPECT_EQ(records.Get(1).place, path + ":4");
}

TEST_F(JsonRecordsTest, ReadsLinesInAFileNamedJson) {
  EXPECT_EQ(Values(Write("x.json", "{\"a\": 1}\n{\"a\": 2}\n")), (std::vector<int>{1, 2}));
  EXPECT_EQ(Values(Write("y.json", "{\n \"a\": 1}\n")), (std::vector<int>{1}));
}

TEST_F(JsonRecordsTest, FlattensNestedSquad) {
  const std::string path = Write("train-v1.1.json", R"({"version": "1.1", "data": [
    {"title": "T", "paragraphs": [
      {"context": "C1", "qas": [{"id": "1", "question": "Q1", "answers": [{"text": "A1", "answer_start": 0}]},
                                {"id": "2", "question": "Q2", "answers": []}]},
      {"context": "C2", "qas": [{"id": "3", "question": "Q3", "answers": []}]}]}]})");
  const JsonRecords records = JsonRecords::Open(dir_.string(), "train", {});
  ASSERT_EQ(records.size(), 3);
  EXPECT_EQ(records.Get(2).value.at("context"), "C2");
  EXPECT_EQ(records.Get(0).value.at("title"), "T");
  EXPECT_EQ(records.Get(1).value.at("question"), "Q2");
  EXPECT_EQ(records.Get(1).place, path + ": data[0].paragraphs[0].qas[1]");
  EXPECT_THAT(ErrorOf(Write("bad.json", R"({"data": [{"paragraphs": [{"context": "C"}]}]})")),
              HasSubstr("bad.json: error: data[0].paragraphs[0].qas: expected a list"));
  EXPECT_THAT(
      ErrorOf(Write("odd.json", R"({"data": [{"paragraphs": [{"context": "C", "qas": [1]}]}]})")),
      HasSubstr("odd.json: error: data[0].paragraphs[0].qas[0]: expected an object"));
}

TEST_F(JsonRecordsTest, FindsTheFilesOfASplit) {
  Write("train-00001-of-00002.jsonl", "{\"a\": 2}\n");
  Write("train-00000-of-00002.jsonl", "{\"a\": 1}\n");
  Write("training.jsonl", "{\"a\": 9}\n");
  Write("dev.json", "[{\"a\": 3}]");
  EXPECT_EQ(Values(dir_.string(), "train"), (std::vector<int>{1, 2}));
  EXPECT_EQ(Values(dir_.string(), "validation"), (std::vector<int>{3}));
  EXPECT_THAT(ErrorOf(dir_.string(), "test"),
              AllOf(HasSubstr("no file for the split 'test'"),
                    HasSubstr("dev.json, train-00000-of-00002.jsonl")));
}

TEST_F(JsonRecordsTest, TakesTheFirstOnesOnly) {
  const std::string lines = Write("x.jsonl", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\nnot json");
  EXPECT_EQ(Values(lines, "train", {.limit = 2}), (std::vector<int>{1, 2}));
  EXPECT_EQ(JsonRecords::Open(lines, "train", {.limit = 100}).size(), 4);
  const std::string array = Write("x.json", "[{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]");
  EXPECT_EQ(Values(array, "train", {.limit = 2}), (std::vector<int>{1, 2}));
  EXPECT_EQ(Values(array, "train[1:]"), (std::vector<int>{2, 3}));
  EXPECT_EQ(Values(array, "train[1:]", {.limit = 1}), (std::vector<int>{2}));
  EXPECT_EQ(Values(array, "train[:67%]"), (std::vector<int>{1, 2}));
  EXPECT_EQ(Values(array, "train[-1:]"), (std::vector<int>{3}));
  EXPECT_THAT(ErrorOf(array, "train[1-2]"), HasSubstr("'train[1-2]' is not understood"));
  EXPECT_THAT(ErrorOf(array, "train[2:1]"), HasSubstr("nothing is left of 3 records"));
}

TEST_F(JsonRecordsTest, NamesWhatIsMissingOrEmpty) {
  EXPECT_THAT(ErrorOf((dir_ / "nowhere").string()),
              HasSubstr("nowhere: error: dataset path: no such file"));
  EXPECT_THAT(ErrorOf(dir_.string()), HasSubstr("holds no .jsonl or .json file"));
  EXPECT_THAT(ErrorOf(Write("empty.jsonl", "")),
              HasSubstr("empty.jsonl: error: the file holds no records"));
  EXPECT_THAT(ErrorOf(Write("blank.jsonl", "\n \n")), HasSubstr("holds no records"));
  EXPECT_THAT(ErrorOf(Write("none.json", "[]")), HasSubstr("holds no records"));
}

TEST_F(JsonRecordsTest, NamesLineAndColumnOfABrokenRecord) {
  const std::string path = Write("x.jsonl", "{\"a\": 1}\n{\"a\": 1,}\n[1]\n");
  const JsonRecords records = JsonRecords::Open(path, "train", {});
  EXPECT_EQ(records.Get(0).value.at("a"), 1);
  try {
    records.Get(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith(path + ":2:9: error: not JSON: "));
  }
  try {
    records.Get(2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path + ":3: error: expected a JSON object, got array");
  }
  EXPECT_THAT(ErrorOf(Write("cut.json", "[{\"a\": 1},\n{\"a\": ")),
              HasSubstr("cut.json:2: error: the file ends inside its array"));
  EXPECT_THAT(ErrorOf(Write("more.json", "[{\"a\": 1}]\n[]")),
              HasSubstr("more.json:2: error: there is more after the end"));
  EXPECT_THAT(ErrorOf(Write("numbers.json", "[1, 2]")),
              HasSubstr("numbers.json:1: error: the elements of the array must be objects"));
  EXPECT_THAT(ErrorOf(Write("two.json", "[{\"a\": 1},\n{\"a\":\n x}]")),
              HasSubstr("two.json:3:2: error: not JSON"));
}

TEST_F(JsonRecordsTest, RefusesOrReplacesInvalidUtf8) {
  const std::string path = Write("x.jsonl", "{\"a\": 1}\n{\"a\": 2, \"t\": \"\xff\"}\n");
  EXPECT_THAT(ErrorOf(path), AllOf(StartsWith(path + ":2:16: error: invalid UTF-8"),
                                   HasSubstr("dataset.lossy: true")));
  const JsonRecords lossy = JsonRecords::Open(path, "train", {.lossy_utf8 = true});
  EXPECT_EQ(lossy.Get(1).value.at("t"), "\xEF\xBF\xBD");
}

TEST_F(JsonRecordsTest, NamesAMissingField) {
  const std::string path = Write("x.jsonl", "{\"a\": 1, \"b\": 2}\n");
  const JsonRecord record = JsonRecords::Open(path, "train", {}).Get(0);
  try {
    TextField(record, "question");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              path + ":1: error: the field 'question' is missing; the record has: a, b");
  }
  EXPECT_THROW(TextField(record, "a"), Error);
}

TEST_F(JsonRecordsTest, ReadsFilesLargerThanABlock) {
  std::string lines;
  std::string array = "[";
  for (int i = 0; i < 30000; ++i) {
    const std::string record = "{\"a\": " + std::to_string(i) + ", \"t\": \"" +
                               std::string(static_cast<size_t>(i % 97), 'x') + "\"}";
    lines += record + "\n";
    array += (i > 0 ? ",\n" : "") + record;
  }
  for (const std::string& path : {Write("big.jsonl", lines), Write("big.json", array + "]")}) {
    const JsonRecords records = JsonRecords::Open(path, "train", {});
    ASSERT_EQ(records.size(), 30000);
    for (const int64_t i : {0, 1, 15000, 29999}) EXPECT_EQ(records.Get(i).value.at("a"), i);
    EXPECT_EQ(records.Get(29999).place, path + ":30000");
  }
}

}  // namespace
}  // namespace am::engine
