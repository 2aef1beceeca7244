#include "controller/job/job_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace am::controller {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

constexpr Clocks kThen{.now = TimePoint(seconds(1000)), .unix_ns = 1'700'000'000'000'000'000};
// Another boot, an hour later.
constexpr Clocks kNow{.now = TimePoint(seconds(5)), .unix_ns = 1'700'003'600'000'000'000};

// Every field has another value than its default.
JobRecord Full() {
  JobRecord record;
  record.job.spec = {
      .id = "am-abcdefghij",
      .rank_spec_json = R"({"model":"a \"b\""})",
      .world_size = 8,
      .restart = {.max_restarts = 7,
                  .no_progress_limit = 2,
                  .grace = std::chrono::milliseconds(1500),
                  .other_nodes = true},
      .name = "sft",
      .user = "ada",
      .priority = -3,
      .demand = {.nodes = 4, .ranks_per_node = 2, .segment_nodes = 2, .gpus = true},
      .after = {"am-aaaaaaaaaa", "am-bbbbbbbbbb"},
      .time_limit = std::chrono::hours(3),
      .client_token = "token",
      .submitted_unix_ns = 1'699'999'999'123'456'789,
      .recipe_yaml = "model:\n  name: ü\n",
      .recipe_file = "sft.yaml",
      .working_directory = "runs/here",
      .environment = {{"A", "1"}, {"B", ""}},
      .checkpoint_dir = "checkpoints",
      .total_steps = 1000,
  };
  record.job.stop = {.kind = StopRequest::Kind::kCancel,
                     .leave_by = kThen.now + seconds(60),
                     .because = "ada asked for it"};
  record.job.status = {
      .phase = JobPhase::kStopping,
      .placement = {{.node = "n1", .slots = {0, 3}}, {.node = "n2", .slots = {1, 2}}},
      .attempt = 4,
      .restarts = 2,
      .attempts_without_progress = 1,
      .best_step = 120,
      .step = 133,
      .checkpoint = "checkpoints/epoch_0_step_130",
      .started_unix_ns = 1'700'000'000'000'000'001,
      .placed_unix_ns = 1'700'000'000'000'000'002,
      .ended_unix_ns = 1'700'000'000'000'000'003,
      .rendezvous_sent = true,
      .leave_sent = kThen.now + seconds(60),
      .kill_sent = true,
      .failure = Failure{.kind = FailureKind::kSignal,
                         .rank = 3,
                         .exit = {.code = 1, .signal = 9, .core_dumped = true},
                         .message = "out of memory",
                         .last_lines = {"one", "two"},
                         .log_path = "rank-3.log",
                         .at = kThen.now - seconds(10)},
      .last_words = "no restart is left",
      .suspended = true,
      .saved = true,
  };
  record.goodput = {.booked = {.queued = seconds(1),
                               .starting = seconds(2),
                               .productive = seconds(3),
                               .checkpoint = seconds(4),
                               .lost_work = seconds(5),
                               .recovery = seconds(6)},
                    .at_risk = seconds(2),
                    .doing = GoodputLedger::Doing::kCheckpoint,
                    .since = kThen.now - seconds(1)};
  record.last_step_json = R"({"step":133})";
  record.ranks = {{.state = ObservedRank::State::kExited,
                   .ready = true,
                   .failed_kind = "io",
                   .failed_message = "disk",
                   .exit = {.code = 74},
                   .killed_because = "rank 1 failed",
                   .log_path = "rank-0.log",
                   .pid = 77,
                   .exited_at = kThen.now,
                   .exit_order = 2}};
  return record;
}

JobRecord Read(const std::string& json, const Clocks& clocks) {
  absl::StatusOr<JobRecord> record = JobRecordFromJson(json, clocks);
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *record : JobRecord{};
}

TEST(JobJson, GivesBackEveryField) {
  JobRecord full = Full();
  JobRecord read = Read(ToJson(full, kThen), kThen);
  EXPECT_EQ(read.job.spec, full.job.spec);
  EXPECT_EQ(read.job.stop, full.job.stop);
  EXPECT_EQ(read.job.status, full.job.status);
  EXPECT_EQ(read.goodput, full.goodput);
  EXPECT_EQ(read.last_step_json, full.last_step_json);
  EXPECT_EQ(ToJson(read, kThen), ToJson(full, kThen));
}

// A field that nobody set above would be equal to its default and pass unseen.
TEST(JobJson, IsTestedWithEveryFieldSet) {
  using Json = nlohmann::json;
  Json full = Json::parse(ToJson(Full(), kThen));
  JobRecord bare;
  bare.job.stop.emplace();
  bare.job.status.failure.emplace();
  bare.job.status.leave_sent.emplace();
  bare.job.spec.time_limit.emplace();
  bare.ranks.emplace_back();
  Json defaults = Json::parse(ToJson(bare, {}));
  full = full.flatten();
  defaults = defaults.flatten();
  std::string same;
  for (const auto& [key, value] : full.items()) {
    if (defaults.contains(key) && defaults[key] == value) same += key + " ";
  }
  EXPECT_EQ(same, "/ranks/0/exit/core_dumped /ranks/0/exit/signal /version ");
}

TEST(JobJson, GivesBackWhatIsNotThere) {
  JobRecord bare;
  bare.job.spec.id = "am-test";
  JobRecord read = Read(ToJson(bare, kThen), kThen);
  EXPECT_EQ(read.job, bare.job);
  EXPECT_TRUE(read.ranks.empty());
}

TEST(JobJson, KeepsDeadlinesOnTheWallClock) {
  JobRecord read = Read(ToJson(Full(), kThen), kNow);
  // An hour has passed, and the steady clock began anew.
  EXPECT_EQ(read.job.stop->leave_by, kNow.now + seconds(60) - seconds(3600));
  EXPECT_EQ(read.job.status.leave_sent, read.job.stop->leave_by);
  EXPECT_EQ(read.goodput.since, kNow.now - seconds(1) - seconds(3600));
}

TEST(JobJson, ReplacesBytesThatAreNoText) {
  JobRecord record;
  record.job.status.failure = Failure{.last_lines = {"\x80"}};
  EXPECT_EQ(Read(ToJson(record, kThen), kThen).job.status.failure->last_lines[0], "\xEF\xBF\xBD");
}

TEST(JobJson, IgnoresWhatItDoesNotKnow) {
  EXPECT_EQ(Read(R"({"version":1,"spec":{"id":"am-test","colour":"red"}})", kThen).job.spec.id,
            "am-test");
}

TEST(JobJson, RefusesALaterVersionAndWhatIsDamaged) {
  EXPECT_EQ(JobRecordFromJson(R"({"version":2})", kThen).status().code(),
            absl::StatusCode::kFailedPrecondition);
  for (const char* damaged : {"", "{", "[]", "{}", R"({"version":1,"spec":{"id":5}})",
                              R"({"version":1,"status":{"phase":"sleeping"}})",
                              R"({"version":1,"ranks":{"a":1}})", R"({"version":1,"spec":5})"}) {
    absl::Status status = JobRecordFromJson(damaged, kThen).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << damaged;
    EXPECT_THAT(std::string(status.message()), HasSubstr("damaged")) << damaged;
  }
}

}  // namespace
}  // namespace am::controller
