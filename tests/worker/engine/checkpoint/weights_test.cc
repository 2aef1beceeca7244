#include "worker/engine/checkpoint/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/engine/checkpoint/scratch.h"

namespace am::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

at::Tensor Counting(std::vector<int64_t> shape, at::ScalarType dtype = at::kFloat,
                    int64_t from = 0) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return at::arange(from, from + count, at::TensorOptions().dtype(at::kLong)).to(dtype).view(shape);
}

Chunk Whole(const std::string& name, const at::Tensor& data) {
  return {name, data.sizes().vec(), 0, data};
}

Chunk PieceOf(const std::string& name, const at::Tensor& whole, int64_t begin, int64_t end) {
  return {name, whole.sizes().vec(), begin, whole.view({-1}).slice(0, begin, end)};
}

TEST(SafetensorsFile, EveryDtypeComesBackBitForBit) {
  const Scratch scratch;
  std::vector<Chunk> chunks;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong,
                                     at::kInt, at::kShort, at::kChar, at::kByte, at::kFloat8_e4m3fn,
                                     at::kFloat8_e5m2, at::kUInt16, at::kUInt32, at::kUInt64}) {
    chunks.push_back(Whole(c10::toString(dtype), Counting({3, 5}, dtype)));
  }
  chunks.push_back(Whole("Bool", Counting({7}).gt(3)));
  chunks.push_back(Whole("scalar", at::full({}, 2.5)));
  chunks.push_back(Whole("empty", at::empty({0, 4})));
  const FileDigest digest =
      WriteSafetensors(scratch.path("a.safetensors"), chunks, {{"who", "me"}});

  const auto file = SafetensorsFile::Open(scratch.path("a.safetensors"));
  EXPECT_EQ(file->metadata().at("who"), "me");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->tensors().size(), chunks.size());
  for (const Chunk& chunk : chunks) {
    const at::Tensor view = file->View(chunk.name);
    EXPECT_EQ(view.scalar_type(), chunk.data.scalar_type()) << chunk.name;
    EXPECT_EQ(view.sizes(), chunk.data.sizes()) << chunk.name;
    const auto bytes = [](const at::Tensor& t) {
      const auto* data = static_cast<const char*>(t.const_data_ptr());
      return t.nbytes() == 0 ? std::string() : std::string(data, t.nbytes());
    };
    EXPECT_EQ(bytes(view), bytes(chunk.data)) << chunk.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.const_data_ptr()) % view.element_size(), 0u)
        << chunk.name;
  }
  EXPECT_EQ(digest.bytes,
            static_cast<int64_t>(std::filesystem::file_size(scratch.path("a.safetensors"))));
  EXPECT_EQ(digest.xxh3_128, HashFile(scratch.path("a.safetensors")).xxh3_128);
}

TEST(SafetensorsFile, ViewsOutliveTheFileAndTheReader) {
  const Scratch scratch;
  WriteSafetensors(scratch.path("a.safetensors"), {Whole("w", Counting({4}))}, {});
  at::Tensor view = SafetensorsFile::Open(scratch.path("a.safetensors"))->View("w");
  std::filesystem::remove(scratch.path("a.safetensors"));
  EXPECT_TRUE(at::equal(view, Counting({4})));
}

TEST(SafetensorsFile, ViewsShareTheMapWhereAlignedAndAreCopiedWhereNot) {
  const Scratch scratch;
  // A header of 61 bytes puts the data at 69, which is no multiple of four.
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  while ((8 + header.size()) % 4 == 0) header += ' ';
  scratch.Write("odd.safetensors", FileOf(header, 8));
  while ((8 + header.size()) % 8 != 0) header += ' ';
  scratch.Write("even.safetensors", FileOf(header, 8));
  const auto odd = SafetensorsFile::Open(scratch.path("odd.safetensors"));
  const auto even = SafetensorsFile::Open(scratch.path("even.safetensors"));
  EXPECT_TRUE(at::equal(odd->View("w"), even->View("w")));
  EXPECT_NE(odd->View("w").const_data_ptr(), odd->View("w").const_data_ptr());
  EXPECT_EQ(even->View("w").const_data_ptr(), even->View("w").const_data_ptr());
}

TEST(SafetensorsFile, MissingFilesAndDirectoriesAreNamed) {
  const Scratch scratch;
  EXPECT_THAT(ErrorOf([&] { SafetensorsFile::Open(scratch.path("no.safetensors")); }),
              HasSubstr("no.safetensors: cannot open: No such file"));
  EXPECT_THAT(ErrorOf([&] { SafetensorsFile::Open(scratch.path()); }),
              HasSubstr("is no regular file"));
  scratch.Write("empty.safetensors", "");
  EXPECT_THAT(ErrorOf([&] { SafetensorsFile::Open(scratch.path("empty.safetensors")); }),
              HasSubstr("the file is empty"));
}

TEST(WeightReader, ReadsASingleFileRowsAndFlatPiecesWithoutCopying) {
  const Scratch scratch;
  const at::Tensor w = Counting({4, 3});
  WriteSafetensors(scratch.path("model.safetensors"), {Whole("w", w)}, {});
  const WeightReader reader = WeightReader::Open(scratch.path());
  EXPECT_THAT(reader.Names(), ElementsAre("w"));
  EXPECT_TRUE(at::equal(reader.Read("w"), w));
  EXPECT_TRUE(at::equal(reader.ReadRows("w", 1, 3), w.slice(0, 1, 3)));
  EXPECT_TRUE(at::equal(reader.ReadFlat("w", 2, 7), w.view({-1}).slice(0, 2, 7)));
  EXPECT_EQ(reader.Read("w").const_data_ptr(), reader.Read("w").const_data_ptr());
  EXPECT_EQ(reader.ReadRows("w", 2, 2).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_THAT(ErrorOf([&] { reader.Read("v"); }), HasSubstr("has no tensor \"v\""));
  ErrorOf([&] { reader.ReadRows("w", 1, 5); }, ErrorKind::kInternal);
}

TEST(WeightReader, FollowsAnIndexAndNamesWhatItPromisesInVain) {
  const Scratch scratch;
  WriteSafetensors(scratch.path("model-1.safetensors"), {Whole("a", Counting({2}))}, {});
  WriteSafetensors(scratch.path("model-2.safetensors"), {Whole("b", Counting({3}))}, {});
  const std::string index = "model.safetensors.index.json";
  const auto open = [&] { WeightReader::Open(scratch.path()); };
  scratch.Write(index, R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  EXPECT_THAT(WeightReader::Open(scratch.path()).Names(), ElementsAre("a", "b"));

  scratch.Write(index, R"({"weight_map":{"a":"model-1.safetensors","b":"model-3.safetensors"}})");
  EXPECT_THAT(ErrorOf(open),
              HasSubstr("names model-3.safetensors (1 tensors, e.g. b), which is not there"));
  scratch.Write(index, R"({"weight_map":{"a":"model-1.safetensors","c":"model-2.safetensors"}})");
  EXPECT_THAT(ErrorOf(open), HasSubstr("model-2.safetensors: has no tensor \"c\""));
  scratch.Write(index, R"({"weight_map":{"a":"../../etc/passwd"}})");
  EXPECT_THAT(ErrorOf(open), HasSubstr("which is no file beside the index"));
  scratch.Write(index, R"({"weight_map":{"a":7}})");
  EXPECT_THAT(ErrorOf(open), HasSubstr("has no file name"));
  scratch.Write(index, R"({"weight_map":)");
  EXPECT_THAT(ErrorOf(open), HasSubstr("index.json: is no valid JSON"));
  scratch.Write(index, R"([])");
  EXPECT_THAT(ErrorOf(open), HasSubstr("has no weight_map"));
}

TEST(WeightReader, RefusesATensorThatTwoFilesHave) {
  const Scratch scratch;
  WriteSafetensors(scratch.path("a.safetensors"), {Whole("w", Counting({2}))}, {});
  WriteSafetensors(scratch.path("b.safetensors"), {Whole("w", Counting({2}))}, {});
  const std::string message = ErrorOf([&] { WeightReader::Open(scratch.path()); });
  EXPECT_THAT(message, HasSubstr("\"w\" is stored twice"));
  EXPECT_THAT(message, HasSubstr("a.safetensors"));
  EXPECT_THAT(message, HasSubstr("b.safetensors"));

  WriteSafetensors(scratch.path("b.safetensors"), {Whole("w", Counting({3}))}, {});
  EXPECT_THAT(ErrorOf([&] { WeightReader::Open(scratch.path()); }),
              HasSubstr("is Float [3], but Float [2] in"));
}

TEST(WeightReader, SaysHowToConvertAPickledModel) {
  const Scratch scratch;
  EXPECT_THAT(ErrorOf([&] { WeightReader::Open(scratch.path("none")); }),
              HasSubstr("does not exist"));
  EXPECT_THAT(ErrorOf([&] { WeightReader::Open(scratch.path()); }), HasSubstr("has no weights"));
  scratch.Write("pytorch_model.bin", "x");
  const std::string message = ErrorOf([&] { WeightReader::Open(scratch.path()); });
  EXPECT_THAT(message, HasSubstr("pytorch_model.bin but no safetensors"));
  EXPECT_THAT(message, HasSubstr("save_pretrained"));
}

// Writes `tensors` as `world` ranks with flat, equal pieces (the last ones may be empty) would.
void WriteShards(const std::string& dir, const std::map<std::string, at::Tensor>& tensors,
                 int64_t world) {
  for (int64_t rank = 0; rank < world; ++rank) {
    std::vector<Chunk> chunks;
    for (const auto& [name, tensor] : tensors) {
      const int64_t share = (tensor.numel() + world - 1) / world;
      const int64_t begin = std::min(tensor.numel(), rank * share);
      chunks.push_back(PieceOf(name, tensor, begin, std::min(tensor.numel(), begin + share)));
    }
    WriteSafetensors(dir + "/shard-" + std::to_string(rank) + ".safetensors", chunks, {});
  }
}

TEST(WeightReader, ReshardsBetweenAnyTwoWorldSizes) {
  const std::map<std::string, at::Tensor> tensors = {{"bias", Counting({7})},
                                                     {"one", Counting({1}, at::kFloat, 5)},
                                                     {"weight", Counting({5, 6}, at::kBFloat16)}};
  for (const int64_t saved : {1, 2, 3, 4, 9}) {
    const Scratch scratch;
    WriteShards(scratch.path(), tensors, saved);
    const WeightReader reader = WeightReader::Open(scratch.path());
    for (const auto& [name, tensor] : tensors) {
      EXPECT_EQ(reader.Info(name).shape, tensor.sizes().vec());
      EXPECT_TRUE(at::equal(reader.Read(name), tensor)) << name << " of " << saved;
      for (const int64_t loaded : {1, 2, 5, 8}) {
        const int64_t share = (tensor.numel() + loaded - 1) / loaded;
        for (int64_t rank = 0; rank < loaded; ++rank) {
          const int64_t begin = std::min(tensor.numel(), rank * share),
                        end = std::min(tensor.numel(), begin + share);
          EXPECT_TRUE(at::equal(reader.ReadFlat(name, begin, end),
                                tensor.reshape({-1}).slice(0, begin, end)));
        }
      }
    }
    EXPECT_TRUE(at::equal(reader.ReadRows("weight", 1, 4), tensors.at("weight").slice(0, 1, 4)));
  }
}

TEST(WeightReader, NoticesThatAShardIsMissing) {
  const Scratch scratch;
  WriteShards(scratch.path(), {{"w", Counting({10})}}, 3);
  std::filesystem::remove(scratch.path("shard-1.safetensors"));
  EXPECT_THAT(ErrorOf([&] { WeightReader::Open(scratch.path()); }),
              HasSubstr("of its 10 elements those from 4 on are in no file; a shard is missing"));
}

TEST(WriteSafetensors, RefusesWhatNoReaderCouldPlace) {
  const Scratch scratch;
  const at::Tensor w = at::ones({4});
  const std::string path = scratch.path("w.safetensors");
  EXPECT_THAT(ErrorOf(
                  [&] {
                    WriteSafetensors(path, {Whole("w", w), Whole("w", w)}, {});
                  },
                  ErrorKind::kInternal),
              HasSubstr("stored twice"));
  EXPECT_THAT(ErrorOf(
                  [&] {
                    WriteSafetensors(path, {{"w", {5}, 2, w}}, {});
                  },
                  ErrorKind::kInternal),
              HasSubstr("outside of the tensor"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(WriteSafetensors, AFileInAForbiddenOrMissingPlaceIsAnIoErrorWithItsPath) {
  const Scratch scratch;
  const std::string path = scratch.path("none/w.safetensors");
  EXPECT_THAT(
      ErrorOf([&] { WriteSafetensors(path, {Whole("w", at::ones({4}))}, {}); }, ErrorKind::kIo),
      HasSubstr(path + ": cannot create: No such file"));
}

}  // namespace
}  // namespace am::engine
