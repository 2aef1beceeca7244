#include "worker/rank_io/rank_event.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace am {
namespace {

RankEvent Event(RankEventType type, nlohmann::json fields) {
  return {.type = type,
          .seq = 3,
          .attempt = 2,
          .rank = 1,
          .t_unix_ns = 5,
          .t_mono_ns = 6,
          .fields = std::move(fields)};
}

TEST(RankEvent, ComesBackAsItWasWritten) {
  for (int type = 0; type <= static_cast<int>(RankEventType::kDone); ++type) {
    RankEvent event =
        Event(static_cast<RankEventType>(type), {{"step", 4}, {"message", "a\n\"b\""}});
    std::string line = ToLine(event);
    EXPECT_EQ(line.back(), '\n');
    EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
    std::optional<RankEvent> read = ParseRankEvent(line);
    ASSERT_TRUE(read.has_value()) << line;
    EXPECT_EQ(read->type, event.type);
    EXPECT_EQ(read->seq, 3u);
    EXPECT_EQ(read->attempt, 2);
    EXPECT_EQ(read->rank, 1);
    EXPECT_EQ(read->fields, event.fields);
  }
}

TEST(RankEvent, IsValidJsonThoughAMessageIsNotUtf8) {
  std::optional<RankEvent> read =
      ParseRankEvent(ToLine(Event(RankEventType::kFailed, {{"message", "caf\xe9"}})));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->fields["message"], "caf\xEF\xBF\xBD");
}

TEST(RankEvent, RefusesWhatIsNoEventOfThisVersion) {
  const std::string deep =
      R"({"v":1,"type":"step","x":)" + std::string(100, '[') + std::string(100, ']') + "}";
  for (const std::string& line :
       {std::string(), std::string("nonsense"), std::string("[]"), std::string("{}"),
        std::string(R"({"v":2,"type":"step"})"), std::string(R"({"v":1})"),
        std::string(R"({"v":1,"type":"unheard"})"), std::string(R"({"v":1,"type":7})"),
        std::string(R"({"v":1,"type":"step","seq":"x"})"), std::string("\x80\xff\0", 3),
        std::string((1 << 20) + 1, ' ')}) {
    EXPECT_FALSE(ParseRankEvent(line).has_value()) << line.substr(0, 60);
  }
  ParseRankEvent(deep);  // must not run out of stack, whatever it says
}

TEST(ControlMessage, ComesBackAsItWasWritten) {
  std::optional<ControlMessage> read = ParseControlMessage(
      ToLine({.type = ControlType::kRendezvous, .address = "127.0.0.1:1", .prefix = "am-x/1"}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->address, "127.0.0.1:1");
  EXPECT_EQ(read->prefix, "am-x/1");
  read = ParseControlMessage(ToLine({.type = ControlType::kLeave, .grace_ms = 500}));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->grace_ms, 500);
  for (ControlType type : {ControlType::kSave, ControlType::kDumpStacks}) {
    EXPECT_EQ(ParseControlMessage(ToLine(ControlMessage{.type = type}))->type, type);
  }
}

TEST(ControlMessage, RefusesARendezvousWithoutAddress) {
  EXPECT_FALSE(ParseControlMessage(R"({"v":1,"type":"rendezvous"})").has_value());
  EXPECT_FALSE(ParseControlMessage(R"({"v":1,"type":"step"})").has_value());
}

TEST(LogLine, ReadsLikeATrainingLog) {
  EXPECT_EQ(LogLine(Event(RankEventType::kStep, {{"step", 4},
                                                 {"epoch", 0},
                                                 {"loss", 1.5514},
                                                 {"grad_norm", 102},
                                                 {"mem_gib", 11.66},
                                                 {"tps", 6924.5},
                                                 {"lr", 1e-5}})),
            "step 4 | epoch 0 | loss 1.5514 | grad_norm 102.0000 | mem: 11.66 GiB | tps 6924.50 | "
            "lr 1.00e-05");
  EXPECT_EQ(LogLine(Event(RankEventType::kValidation,
                          {{"name", "default"}, {"step", 20}, {"epoch", 0}, {"loss", 0.2469}})),
            "[val] step 20 | epoch 0 | loss 0.2469");
  EXPECT_EQ(LogLine(Event(RankEventType::kValidation,
                          {{"name", "dev"}, {"step", 20}, {"epoch", 0}, {"loss", 0.2469}})),
            "[val] step 20 | epoch 0 | loss 0.2469 | name dev");
  EXPECT_EQ(
      LogLine(Event(RankEventType::kCheckpointBegun, {{"path", "checkpoints/epoch_0_step_10"}})),
      "Saving checkpoint to checkpoints/epoch_0_step_10");
  EXPECT_EQ(LogLine(Event(RankEventType::kHeartbeat, {{"step", 1}})), "");
}

TEST(LogLine, SaysNanForALossThatIsNoNumber) {
  std::optional<RankEvent> read =
      ParseRankEvent(ToLine(Event(RankEventType::kStep, {{"step", 1}, {"loss", std::nan("")}})));
  EXPECT_EQ(LogLine(*read).substr(0, 28), "step 1 | epoch 0 | loss nan ");
}

}  // namespace
}  // namespace am
