#include "launcher/cli/job_text.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "launcher/cli/client.h"

namespace am::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

v1::Job FailedJob() {
  v1::Job job;
  job.set_id("am-aaaaaaaaaa");
  job.set_name("lora");
  job.set_phase("Failed");
  job.set_why("rank 1 exited with status 70 (internal error): the real reason");
  job.set_world_size(2);
  job.set_nodes(1);
  job.set_attempt(3);
  job.set_restarts(2);
  job.set_submitted_unix_ns(1000 * kSecond);
  job.set_started_unix_ns(1010 * kSecond);
  job.set_ended_unix_ns(1072 * kSecond);
  job.set_step(7);
  job.set_total_steps(9);
  job.set_exit_status(1);
  job.mutable_goodput()->set_queued(10);
  job.mutable_goodput()->set_productive(30);
  v1::Rank* rank = job.add_ranks();
  rank->set_state("exited");
  rank->set_signal(9);
  rank->set_stopped_because("rank 1 failed");
  rank->set_log_path("/s/jobs/am-aaaaaaaaaa/attempt-3/rank-0.log");
  rank = job.add_ranks();
  rank->set_rank(1);
  rank->set_state("exited");
  rank->set_exit_code(70);
  return job;
}

TEST(JobPage, SaysWhyAndWhichRankAndWhereTheTimeWent) {
  std::string page = JobPage(FailedJob(), 2000 * kSecond);
  EXPECT_THAT(page, HasSubstr("Why          rank 1 exited with status 70"));
  EXPECT_THAT(page, HasSubstr("Exit status  1"));
  EXPECT_THAT(page, HasSubstr("Attempt      3, 2 restarts"));
  EXPECT_THAT(page, HasSubstr("Ran          1:02")) << "until its end, not until now";
  EXPECT_THAT(page, HasSubstr("Step         7/9"));
  EXPECT_THAT(page, HasSubstr("Logs         /s/jobs/am-aaaaaaaaaa/attempt-3\n"));
  EXPECT_THAT(page, HasSubstr("exited by signal 9"));
  EXPECT_THAT(page, HasSubstr("rank 1 failed"));
  EXPECT_THAT(page, HasSubstr("productive       30.0 s   75.0 %"));
  EXPECT_THAT(page, Not(HasSubstr("Priority"))) << "what is not there is not said";
}

TEST(JobTable, HasALineAJob) {
  google::protobuf::RepeatedPtrField<v1::Job> jobs;
  *jobs.Add() = FailedJob();
  std::string table = JobTable(jobs, 2000 * kSecond);
  EXPECT_THAT(table, HasSubstr("am-aaaaaaaaaa  lora"));
  EXPECT_THAT(table, HasSubstr("7/9"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
}

TEST(Json, HasTheNamesOfTheFieldsAndNumbersThatAreNumbers) {
  nlohmann::ordered_json json = ToJson(FailedJob());
  EXPECT_EQ(json["submitted_unix_ns"], 1000 * kSecond);
  EXPECT_EQ(json["exit_status"], 1);
  EXPECT_EQ(json["checkpoint"], "");
  EXPECT_EQ(json["goodput"]["productive"], 30);
  EXPECT_EQ(json["ranks"][1]["exit_code"], 70);
  EXPECT_EQ(json["placement"], nlohmann::ordered_json::array());
}

TEST(ExitStatus, SaysWhatBecameOfACall) {
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::OK), 0);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::INVALID_ARGUMENT), 2);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::NOT_FOUND), 2);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::UNAVAILABLE), 3);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::UNAUTHENTICATED), 4);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::PERMISSION_DENIED), 4);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::RESOURCE_EXHAUSTED), 4);
  EXPECT_EQ(ExitStatusOf(grpc::StatusCode::INTERNAL), 6);
}

TEST(Options, OfOneLetterHaveOneDash) {
  absl::StatusOr<Words> words = SplitWords(kLogsCommand, {"am-a", "-f", "--rank", "3"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_TRUE(words->Has("follow"));
  EXPECT_EQ(words->plain, std::vector<std::string>{"am-a"});
  EXPECT_FALSE(SplitWords(kLogsCommand, {"am-a", "-r"}).ok());
  EXPECT_THAT(HelpText(kLogsCommand), HasSubstr("--follow, -f"));
}

}  // namespace
}  // namespace am::cli
