// amctl logs: what the ranks of a job wrote, byte for byte.
#include <charconv>
#include <map>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "common/exit_status.h"
#include "common/line_reader.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"

namespace am::cli {
namespace {

constexpr size_t kMaxLineBytes = 1 << 20;  // of a line behind its rank

constexpr Option kOptions[] = {
    {"follow", "", "go on until the job has ended, through its restarts", "f"},
    {"rank", "R", "of this rank alone, byte for byte (all, each line behind its rank)"},
    {"attempt", "N", "of this attempt (the last)"},
    {"tail", "BYTES", "only the last ones of each rank's log"},
    kServerOption,
    kTokenFileOption,
};

// Lines of several ranks, each behind its rank; a rank's unfinished line waits for its end.
class RankLines {
 public:
  explicit RankLines(std::ostream& out) : out_(out) {}

  void Feed(int rank, const std::string& bytes) { Of(rank).Feed(bytes); }
  void Finish() {
    for (auto& [rank, lines] : readers_) lines.Finish();
  }

 private:
  LineReader& Of(int rank) {
    auto found = readers_.find(rank);
    if (found == readers_.end()) {
      auto print = [this, rank](std::string_view line, size_t) {
        out_ << '[' << rank << "] " << line << '\n';
      };
      found = readers_.try_emplace(rank, kMaxLineBytes, print).first;
    }
    return found->second;
  }

  std::ostream& out_;
  std::map<int, LineReader> readers_;
};

absl::StatusOr<v1::ReadLogsRequest> ReadRequest(const Words& words) {
  v1::ReadLogsRequest request;
  request.set_job(words.plain[0]);
  request.set_follow(words.Has("follow"));
  request.set_rank(-1);
  if (std::optional<std::string> text = words.Value("rank")) {
    int rank = -1;
    auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), rank);
    if (error != std::errc() || end != text->data() + text->size() || rank < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--rank: expected an integer of at least 0, got ", *text));
    }
    request.set_rank(rank);
  }
  absl::StatusOr<std::optional<int>> attempt = words.Count("attempt");
  if (!attempt.ok()) return attempt.status();
  absl::StatusOr<std::optional<int>> tail = words.Count("tail");
  if (!tail.ok()) return tail.status();
  request.set_attempt(attempt->value_or(0));
  request.set_tail_bytes(tail->value_or(0));
  return request;
}

int RunLogs(CommandContext& context) {
  Opened opened = Open(kLogsCommand, context, {"ID"});
  if (!opened) return opened.status;
  absl::StatusOr<v1::ReadLogsRequest> request = ReadRequest(opened.words);
  if (!request.ok()) {
    context.err << "amctl logs: " << request.status().message() << " (amctl help logs)\n";
    return kExitUsage;
  }
  bool plain = request->rank() >= 0;
  if (!plain) {
    v1::GetJobRequest ask;
    ask.set_id(request->job());
    v1::Job job;
    grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::GetJob, ask, job);
    if (!status.ok()) return opened.client->Fail(status, "logs", context.err);
    plain = job.world_size() == 1;
  }
  RankLines lines(context.out);
  grpc::Status status = opened.client->Logs(*request, [&](const v1::LogChunk& chunk) {
    if (plain) {
      context.out << chunk.data();
    } else {
      lines.Feed(chunk.rank(), chunk.data());
    }
    return bool(context.out << std::flush);
  });
  lines.Finish();
  context.out << std::flush;
  return status.ok() ? kExitDone : opened.client->Fail(status, "logs", context.err);
}

}  // namespace

const Command kLogsCommand = {
    .name = "logs",
    .summary = "what the ranks of a job wrote",
    .usage = "logs ID [options]",
    .about =
        "Prints the logs of a job's ranks: of one rank byte for byte, of several each line "
        "behind its rank.",
    .options = kOptions,
    .examples =
        "  amctl logs am-7h2x -f\n"
        "  amctl logs am-7h2x --rank 3 --attempt 1",
    .run = RunLogs,
};

}  // namespace am::cli
