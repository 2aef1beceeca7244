#include "worker/engine/checkpoint/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/engine/checkpoint/scratch.h"

namespace am::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGood[] =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}}  )";

TEST(SafetensorsHeader, ReadsNamesShapesDtypesAndMetadata) {
  const std::string file = FileOf(kGood, 22);
  const SafetensorsHeader header = ParseSafetensorsHeader(file, "m.safetensors");
  EXPECT_EQ(header.data_begin, file.size() - 22);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors.at("a").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(header.tensors.at("b").dtype, "BF16");
  EXPECT_EQ(header.tensors.at("b").begin, 16u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, TakesScalarsEmptyTensorsAndNoTensorsAtAll) {
  EXPECT_EQ(ParseSafetensorsHeader(FileOf("{}", 0), "m").tensors.size(), 0u);
  const std::string header =
      R"({"s":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"e":{"dtype":"F32","shape":[4,0],"data_offsets":[8,8]}})";
  const SafetensorsHeader parsed = ParseSafetensorsHeader(FileOf(header, 8), "m");
  EXPECT_TRUE(parsed.tensors.at("s").shape.empty());
  EXPECT_EQ(parsed.tensors.at("e").begin, parsed.tensors.at("e").end);
}

struct BadFile {
  const char* what;
  std::string file;
  std::string fault;  // part of the message
};

class HostileHeaders : public ::testing::TestWithParam<BadFile> {};

TEST_P(HostileHeaders, AreRefusedWithFileAndFault) {
  const std::string message =
      ErrorOf([] { ParseSafetensorsHeader(GetParam().file, "dir/m.safetensors"); });
  EXPECT_THAT(message, StartsWith("dir/m.safetensors: "));
  EXPECT_THAT(message, HasSubstr(GetParam().fault));
  EXPECT_LT(message.size(), 700u);
}

std::string Tensor(const std::string& fields) { return R"({"w":{)" + fields + "}}"; }
std::string Length(const std::string& eight) { return eight + "{}"; }

INSTANTIATE_TEST_SUITE_P(
    Table, HostileHeaders,
    ::testing::Values(
        BadFile{"Empty", "", "the file is empty"}, BadFile{"FewBytes", "abc", "it has 3 bytes"},
        BadFile{"LfsPointer", "version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"},
        BadFile{"Zip", std::string("PK\x03\x04zzzzzzzzzzzz"), "zip archive"},
        BadFile{"Gguf", "GGUF\x03zzzzzzzzzzzzz", "GGUF"},
        BadFile{"Text", "hello, this is no tensor file at all", "more than the allowed 100000000"},
        BadFile{"HugeLength", Length(std::string(8, '\xff')), "18446744073709551615 bytes"},
        BadFile{"LengthPastTheEnd", Length(std::string("\x05\0\0\0\0\0\0\0", 8)),
                "the file ends after 2"},
        BadFile{"ZeroLength", std::string(8, '\0'), "does not begin with '{'"},
        BadFile{"ListHeader", FileOf("[1,2]", 0), "does not begin with '{'"},
        BadFile{"CutJson", FileOf(R"({"w":{"dtype")", 0), "no valid JSON at byte"},
        BadFile{"TrailingGarbage", FileOf("{} x", 0), "no valid JSON"},
        BadFile{"BadUtf8", FileOf("{\"\xff\xfe\":1}", 0), "no valid JSON"},
        BadFile{"DeepJson",
                FileOf(R"({"w":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}", 0),
                "a list where it does not belong"},
        BadFile{
            "DeepShape",
            FileOf(Tensor(R"("shape":)" + std::string(100'000, '[') + std::string(100'000, ']')),
                   0),
            "a list where it does not belong"},
        BadFile{"DeepMetadata", FileOf(R"({"__metadata__":{"a":{"b":{"c":1}}}})", 0),
                "an object where it does not belong"},
        BadFile{"MetadataNumber", FileOf(R"({"__metadata__":{"a":1}})", 0),
                "a number where it does not belong"},
        BadFile{"MetadataTwice", FileOf(R"({"__metadata__":{},"__metadata__":{}})", 0),
                "\"__metadata__\" twice"},
        BadFile{"NameTwice",
                FileOf(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                       2),
                "has \"w\" twice"},
        BadFile{"FieldTwice", FileOf(Tensor(R"("dtype":"U8","dtype":"U8")"), 0),
                "the field \"dtype\" twice"},
        BadFile{"UnknownField", FileOf(Tensor(R"("stride":[1])"), 0), "unknown field \"stride\""},
        BadFile{"NoDtype", FileOf(Tensor(R"("shape":[1],"data_offsets":[0,1])"), 1),
                "has no dtype"},
        BadFile{"NoShape", FileOf(Tensor(R"("dtype":"U8","data_offsets":[0,1])"), 1),
                "has no shape"},
        BadFile{"NoOffsets", FileOf(Tensor(R"("dtype":"U8","shape":[1])"), 1),
                "has no data_offsets"},
        BadFile{"ThreeOffsets",
                FileOf(Tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1),
                "3 numbers"},
        BadFile{"TensorIsText", FileOf(R"({"w":"x"})", 0), "text where it does not belong"},
        BadFile{"UnknownDtype",
                FileOf(Tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"), 1),
                "unknown dtype \"F7\""},
        BadFile{"NegativeShape",
                FileOf(Tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1),
                "shape has the negative number -1"},
        BadFile{"FractionShape",
                FileOf(Tensor(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])"), 1),
                "a fraction"},
        BadFile{
            "HugeNumber",
            FileOf(Tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])"),
                   1),
            "too large"},
        BadFile{
            "OverflowingShape",
            FileOf(Tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1])"),
                   1),
            "product of its shape is too large"},
        BadFile{
            "OverflowingBytes",
            FileOf(Tensor(R"("dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,1])"),
                   1),
            "need far more"},
        BadFile{"WrongSize", FileOf(Tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), 8),
                "has 8 bytes, but its shape and dtype F32 need 12"},
        BadFile{"HalfByte", FileOf(Tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1),
                "whole bytes"},
        BadFile{"BackwardOffsets",
                FileOf(Tensor(R"("dtype":"U8","shape":[0],"data_offsets":[2,1])"), 2),
                "end before"},
        BadFile{"PastTheEnd", FileOf(Tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 8),
                "cut short"},
        BadFile{"Overlap",
                FileOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                       6),
                "\"a\" and \"b\" overlap"},
        BadFile{"Gap",
                FileOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}})",
                       8),
                "bytes 4 to 6 of the data"},
        BadFile{"BytesAfter", FileOf(Tensor(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 9),
                "5 bytes after the last tensor"}),
    [](const ::testing::TestParamInfo<BadFile>& info) { return info.param.what; });

TEST(SafetensorsHeader, ShortensAndEscapesHostileNames) {
  EXPECT_EQ(QuotedName("a\nb\x1b"), "\"a\\nb\\u001b\"");
  EXPECT_LT(QuotedName(std::string(10'000, 'x')).size(), 140u);
}

std::string Pieces(const std::string& places) {
  std::string escaped;
  for (const char c : places) escaped += c == '"' ? std::string("\\\"") : std::string(1, c);
  return FileOf(R"({"__metadata__":{"amctl_chunks":")" + escaped +
                    R"("},"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                4);
}

ChunkPlaces PlacesOf(const std::string& places) {
  const std::string file = Pieces(places);
  return ParseChunkPlaces(ParseSafetensorsHeader(file, "m"), "m");
}

TEST(ChunkPlaces, SayWhereAPieceLies) {
  const ChunkPlaces places = PlacesOf(R"({"w":{"shape":[2,5],"begin":6}})");
  EXPECT_EQ(places.at("w").global_shape, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(places.at("w").begin, 6);
}

TEST(ChunkPlaces, OutsideOfTheTensorOrOfTheFileAreRefused) {
  for (const char* bad :
       {R"(x)", R"([])", R"({"v":{"shape":[9],"begin":0}})", R"({"w":{"shape":[9]}})", R"({"w":3})",
        R"({"w":{"shape":[9],"begin":6}})", R"({"w":{"shape":[9],"begin":-1}})",
        R"({"w":{"shape":[-9],"begin":0}})", R"({"w":{"shape":["9"],"begin":0}})",
        R"({"w":{"shape":[4294967296,4294967296],"begin":0}})",
        R"({"w":{"shape":[9],"begin":18446744073709551615}})",
        R"({"w":{"shape":[[[[9]]]],"begin":0}})"}) {
    EXPECT_THAT(ErrorOf([&] { PlacesOf(bad); }), HasSubstr("amctl_chunks")) << bad;
  }
}

}  // namespace
}  // namespace am::engine
