#include "launcher/cli/job_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "launcher/cli/progress.h"
#include "launcher/plan/text_table.h"

namespace am::cli {
namespace {

namespace v1 = amctl::v1;

std::string Steps(const v1::Job& job) {
  if (job.total_steps() > 0) return absl::StrCat(job.step(), "/", job.total_steps());
  return job.step() > 0 ? absl::StrCat(job.step()) : "-";
}

std::string Time(int64_t unix_ns) {
  return unix_ns == 0 ? "-"
                      : absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixNanos(unix_ns),
                                         absl::LocalTimeZone());
}

// How long it has run: until now, or until it ended.
std::string RunningTime(const v1::Job& job, int64_t now) {
  if (job.started_unix_ns() == 0) return "-";
  return Age(job.started_unix_ns(), job.ended_unix_ns() != 0 ? job.ended_unix_ns() : now);
}

std::string Ended(const v1::Rank& rank) {
  if (rank.state() != "exited") return rank.state();
  if (rank.signal() != 0) return absl::StrCat("exited by signal ", rank.signal());
  return absl::StrCat("exited with status ", rank.exit_code());
}

std::string FolderOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace

bool HasEnded(const v1::Job& job) {
  return job.phase() == "Succeeded" || job.phase() == "Failed" || job.phase() == "Cancelled";
}

std::string Age(int64_t from_unix_ns, int64_t to_unix_ns) {
  return FormatTime(static_cast<double>(std::max<int64_t>(0, to_unix_ns - from_unix_ns)) / 1e9);
}

std::string JobTable(const google::protobuf::RepeatedPtrField<v1::Job>& jobs, int64_t now) {
  plan::TextTable table(
      {"<ID", "<NAME", "<USER", "<PHASE", "RANKS", "STEP", "RESTARTS", "AGE", "RAN", "<WHY"});
  for (const v1::Job& job : jobs) {
    table.Row({job.id(), job.name(), job.user(), job.phase(), absl::StrCat(job.world_size()),
               Steps(job), absl::StrCat(job.restarts()), Age(job.submitted_unix_ns(), now),
               RunningTime(job, now), job.why()});
  }
  return table.Text();
}

std::string NodeTable(const google::protobuf::RepeatedPtrField<v1::Node>& nodes, int64_t now) {
  plan::TextTable table({"<NAME", "<STATE", "GPUS", "FREE", "SLOTS", "HEARD", "<JOBS", "<WHY"});
  for (const v1::Node& node : nodes) {
    std::string jobs = absl::StrJoin(node.jobs(), " ");
    table.Row({node.name(), node.state(), absl::StrCat(node.gpus()),
               absl::StrCat(node.free_slots()), absl::StrCat(node.slots()),
               node.last_heard_unix_ns() == 0 ? "-" : Age(node.last_heard_unix_ns(), now),
               jobs.empty() ? "-" : jobs, node.why()});
  }
  return table.Text();
}

std::string JobPage(const v1::Job& job, int64_t now) {
  std::string page;
  auto line = [&](absl::string_view name, absl::string_view value) {
    if (!value.empty()) absl::StrAppend(&page, absl::StrFormat("%-12s %s\n", name, value));
  };
  line("Job", absl::StrCat(job.id(), job.name().empty() ? "" : "  ", job.name()));
  line("User", job.user());
  line("Phase", job.phase());
  line("Why", job.why());
  if (HasEnded(job)) line("Exit status", absl::StrCat(job.exit_status()));
  line("Priority", job.priority() == 0 ? "" : absl::StrCat(job.priority()));
  line("Asks for", absl::StrCat(job.world_size(), job.world_size() == 1 ? " rank" : " ranks",
                                " on ", job.nodes(), job.nodes() == 1 ? " node" : " nodes"));
  line("Nodes", absl::StrJoin(job.placement(), " "));
  line("Attempt", job.attempt() == 0
                      ? ""
                      : absl::StrCat(job.attempt(), ", ", job.restarts(),
                                     job.restarts() == 1 ? " restart" : " restarts"));
  line("Submitted", Time(job.submitted_unix_ns()));
  line("Started", Time(job.started_unix_ns()));
  line("Ended", Time(job.ended_unix_ns()));
  line("Ran", RunningTime(job, now));
  line("Step", Steps(job));
  if (job.loss() != 0) line("Loss", absl::StrFormat("%.4f", job.loss()));
  if (job.tokens_per_s() != 0) line("Tokens/s", absl::StrFormat("%.0f", job.tokens_per_s()));
  line("Checkpoint", job.checkpoint());
  if (job.ranks_size() > 0) line("Logs", FolderOf(job.ranks(0).log_path()));

  const v1::Goodput& goodput = job.goodput();
  std::vector<std::pair<const char*, double>> parts = {
      {"queued", goodput.queued()},         {"starting", goodput.starting()},
      {"productive", goodput.productive()}, {"checkpoint", goodput.checkpoint()},
      {"lost work", goodput.lost_work()},   {"recovery", goodput.recovery()}};
  double total = 0;
  for (const auto& [name, seconds] : parts) total += seconds;
  if (total > 0) {
    absl::StrAppend(&page, "\nTime (", absl::StrFormat("%.1f", total), " s)\n");
    for (const auto& [name, seconds] : parts) {
      absl::StrAppend(&page, absl::StrFormat("  %-11s %9.1f s  %5.1f %%\n", name, seconds,
                                             100 * seconds / total));
    }
  }
  if (job.ranks_size() > 0) {
    page += "\nRanks\n";
    plan::TextTable table({"RANK", "<NODE", "<STATE", "<STOPPED BECAUSE"});
    for (const v1::Rank& rank : job.ranks()) {
      table.Row({absl::StrCat(rank.rank()), rank.node(), Ended(rank),
                 rank.stopped_because().empty() ? "-" : rank.stopped_because()});
    }
    page += table.Text();
  }
  return page;
}

std::string EventLine(const v1::Event& event, bool with_job) {
  return absl::StrCat(Time(event.t_unix_ns()), "  ",
                      with_job ? absl::StrFormat("%-13s  ", event.job()) : "",
                      absl::StrFormat("%-10s  ", event.kind()), event.text());
}

}  // namespace am::cli
