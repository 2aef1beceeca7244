#include "worker/rank_io/rank_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/error.h"

namespace am {
namespace {

using nlohmann::json;

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "nothing was thrown";
}

RankSpec FullSpec() {
  RankSpec spec{.job = "am-abc", .attempt = 3, .seed = 18446744073709551615u};
  spec.layout.ranks = {{.rank = 0}, {.rank = 1, .local_rank = 1, .dp_shard = 1}};
  spec.model.config_overrides = {{"rope_theta", 1e4}};
  spec.peft = PeftSpec{.target_modules = {"*_proj"}, .lora_dtype = "float32"};
  spec.validation_datasets = {{.name = "default"}, {.name = "hard", .limit_samples = 64}};
  spec.lr_scheduler = LrSchedulerSpec{.min_lr = 0.0};
  spec.max_grad_norm.reset();
  spec.dist.reshard_after_forward = false;
  return spec;
}

TEST(RankSpec, ComesBackAsItWasWritten) {
  json written = ToJson(FullSpec());
  EXPECT_EQ(ToJson(RankSpecFromJson(json::parse(written.dump()))), written);
  EXPECT_EQ(written["seed"], 18446744073709551615u);
  EXPECT_TRUE(written["max_grad_norm"].is_null());
  EXPECT_EQ(written["validation_datasets"][1]["limit_samples"], 64);
}

TEST(RankSpec, RefusesWhatItDoesNotKnowByName) {
  json spec = ToJson(FullSpec());
  spec["model"]["colour"] = "red";
  EXPECT_EQ(MessageOf([&] { RankSpecFromJson(spec); }),
            "rank spec: model.colour: unknown field; amctl and am-rank are of different versions");
}

TEST(RankSpec, RefusesWrongTypesWithTheFieldAndTheValue) {
  struct {
    const char* pointer;
    json value;
    const char* message;
  } const kCases[] = {
      {"/layout/tp_size", "2", "rank spec: layout.tp_size: expected an integer, got \"2\""},
      {"/layout/tp_size", 3000000000,
       "rank spec: layout.tp_size: expected an integer within the field's range, got 3000000000"},
      {"/seed", -1, "rank spec: seed: expected an integer within the field's range, got -1"},
      {"/batch/grad_acc_steps", 1.5,
       "rank spec: batch.grad_acc_steps: expected an integer, got 1.5"},
      {"/dist/activation_checkpointing", 1,
       "rank spec: dist.activation_checkpointing: expected true or false, got 1"},
      {"/layout/ranks/1/rank", nullptr,
       "rank spec: layout.ranks[1].rank: expected an integer, got null"},
      {"/peft/alpha", "x", "rank spec: peft.alpha: expected a number, got \"x\""},
      {"/peft/target_modules", "x", "rank spec: peft.target_modules: expected an array, got \"x\""},
      {"/dataset/args", 1, "rank spec: dataset.args: expected an object, got 1"},
      {"/loss", json::array(), "rank spec: loss: expected an object, got []"},
      {"/version", 2, "rank spec: version: 2 is not supported; this am-rank reads version 1"},
  };
  for (const auto& c : kCases) {
    json spec = ToJson(FullSpec());
    spec[json::json_pointer(c.pointer)] = c.value;
    EXPECT_EQ(MessageOf([&] { RankSpecFromJson(spec); }), c.message);
  }
  EXPECT_EQ(MessageOf([] { RankSpecFromJson(json::object()); }),
            "rank spec: version: missing; this am-rank reads version 1");
}

TEST(RankSpec, NamesTheFileThatCannotBeRead) {
  EXPECT_THAT(MessageOf([] { ReadRankSpec("/nowhere/rank_spec.json"); }),
              ::testing::HasSubstr("/nowhere/rank_spec.json: cannot be read"));
  std::string path = ::testing::TempDir() + "/truncated_rank_spec.json";
  std::ofstream(path) << "{\"version\": 1, \"job\"";
  EXPECT_THAT(MessageOf([&] { ReadRankSpec(path); }), ::testing::HasSubstr(path + ": is no JSON"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace am
