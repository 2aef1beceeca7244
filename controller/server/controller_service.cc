#include "controller/server/controller_service.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/server/job_view.h"
#include "controller/server/rank_log_reader.h"
#include "controller/server/submit.h"

namespace am::controller {
namespace {

namespace v1 = amctl::v1;
using std::chrono::milliseconds;

constexpr int64_t kEventsAtATime = 256;
constexpr size_t kLogChunkBytes = 64 << 10;
constexpr milliseconds kCallPatience(100);  // how soon a call notices that its client is gone
constexpr milliseconds kLogPatience(50);    // how soon a log that grew is read on

grpc::Status ToGrpc(const absl::Status& status) {
  // The codes of both are the same numbers.
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// What a call waits for: something may be new.
class Bell {
 public:
  void Ring() {
    std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void Wait(milliseconds longest) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, longest, [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;  // guarded by mutex_
};

// The loop's answer. `question` runs on the loop and is handed what takes the answer, once.
template <typename T>
absl::StatusOr<T> Ask(EventLoop& loop, const grpc::ServerContext& call,
                      std::function<void(std::function<void(absl::StatusOr<T>)>)> question) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
  std::future<absl::StatusOr<T>> answer = promise->get_future();
  loop.Post([promise = std::move(promise), question = std::move(question)] {
    question([promise](absl::StatusOr<T> answer) { promise->set_value(std::move(answer)); });
  });
  // The loop may be gone when the server shuts down; the call is cancelled then.
  while (answer.wait_for(kCallPatience) != std::future_status::ready) {
    if (call.IsCancelled()) return absl::CancelledError("the call was given up");
  }
  return answer.get();
}

// The same for what the loop knows at once. What is captured by reference must live as long as the
// loop.
template <typename T>
absl::StatusOr<T> AskNow(EventLoop& loop, const grpc::ServerContext& call,
                         std::function<absl::StatusOr<T>()> question) {
  return Ask<T>(loop, call, [question = std::move(question)](auto take) { take(question()); });
}

// Rings when a committed event is of this job (of any, where it is empty).
class Watcher {
 public:
  Watcher(ServiceContext& context, std::string job) : context_(context) {
    context_.loop.Post([&context, job = std::move(job), bell = bell_, id = id_] {
      *id = context.controller.Watch([job, bell](const StoredEvent& event) {
        if (job.empty() || event.job == job) bell->Ring();
      });
    });
  }
  ~Watcher() {
    context_.loop.Post([&context = context_, id = id_] { context.controller.Unwatch(*id); });
  }
  Watcher(const Watcher&) = delete;
  Bell& bell() { return *bell_; }

 private:
  ServiceContext& context_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::shared_ptr<uint64_t> id_ = std::make_shared<uint64_t>(0);  // on the loop
};

// ---- events ----

struct EventPage {
  std::vector<StoredEvent> events;
  bool last = false;  // nothing can follow: the job has ended
};

absl::StatusOr<EventPage> ReadPage(Store& store, const std::string& job, int64_t after_seq) {
  EventPage page;
  AM_ASSIGN_OR_RETURN(page.events, store.Events(job, after_seq, kEventsAtATime));
  if (page.events.empty() && !job.empty()) {
    // In the store, where a job ends together with its last event.
    AM_ASSIGN_OR_RETURN(std::optional<StoredJob> stored, store.Find(job));
    page.last = stored && stored->terminal;
  }
  return page;
}

// ---- logs ----

// Where a job is, as far as its logs are concerned.
struct LogState {
  std::string job;
  int64_t attempt = 0;
  int world_size = 1;
  bool finished = false;
};

absl::StatusOr<LogState> FindLogs(Controller& controller, const std::string& job) {
  AM_ASSIGN_OR_RETURN(JobReport report, controller.Find(job));
  return LogState{report.job.spec.id, report.job.status.attempt, report.job.spec.world_size,
                  IsFinished(report.job)};
}

// The logs of the ranks of one attempt.
class AttemptLogs {
 public:
  AttemptLogs(const std::string& state_dir, const LogState& state, int64_t attempt,
              const v1::ReadLogsRequest& request)
      : attempt_(attempt) {
    std::string folder = absl::StrCat(state_dir, "/jobs/", state.job, "/attempt-", attempt);
    for (int rank = 0; rank < state.world_size; ++rank) {
      if (request.rank() >= 0 && rank != request.rank()) continue;
      readers_.emplace(
          rank, RankLogReader(absl::StrCat(folder, "/rank-", rank, ".log"), request.tail_bytes()));
    }
  }

  int64_t attempt() const { return attempt_; }

  // Writes all that there is. False: the client is gone.
  absl::StatusOr<bool> WriteTo(grpc::ServerWriter<v1::LogChunk>& out) {
    bool more = true;
    while (more) {
      more = false;
      for (auto& [rank, reader] : readers_) {
        AM_ASSIGN_OR_RETURN(std::string bytes, reader.Read(kLogChunkBytes));
        if (bytes.empty()) continue;
        more = true;
        v1::LogChunk chunk;
        chunk.set_rank(rank);
        chunk.set_data(std::move(bytes));
        if (!out.Write(chunk)) return false;
      }
    }
    return true;
  }

 private:
  int64_t attempt_;
  std::map<int, RankLogReader> readers_;
};

}  // namespace

ControllerService::ControllerService(ServiceContext& context, Authenticate authenticate)
    : context_(context), authenticate_(std::move(authenticate)) {}

ControllerService::Admission ControllerService::Admit(const grpc::ServerContext& call,
                                                      Role role) const {
  auto header = call.client_metadata().find("authorization");
  std::string_view authorization;
  if (header != call.client_metadata().end()) {
    authorization = {header->second.data(), header->second.size()};
  }
  absl::StatusOr<Identity> who = authenticate_(authorization);
  if (!who.ok()) return {{}, who.status()};
  return {*who, Require(*who, role)};
}

grpc::Status ControllerService::Version(grpc::ServerContext*, const v1::VersionRequest*,
                                        v1::VersionReply* reply) {
  reply->set_version(context_.version);
  reply->set_started_unix_ns(context_.started_unix_ns);
  return grpc::Status::OK;
}

grpc::Status ControllerService::Submit(grpc::ServerContext* call, const v1::SubmitRequest* request,
                                       v1::SubmitReply* reply) {
  Admission admission = Admit(*call, Role::kSubmitter);
  auto submit = [&]() -> absl::Status {
    AM_RETURN_IF_ERROR(admission.status);
    const Identity& who = admission.who;
    std::string user = who.name.empty() ? request->user() : who.name;
    AM_ASSIGN_OR_RETURN(Submission submission, ReadSubmission(*request, user, context_.machine,
                                                              context_.clock.UnixNanos()));
    reply->set_diagnostics_text(std::move(submission.warnings));
    auto order = std::make_shared<Order>(std::move(submission.order));
    AM_ASSIGN_OR_RETURN(Ordered ordered,
                        Ask<Ordered>(context_.loop, *call, [this, order](auto take) {
                          context_.controller.Submit(std::move(*order), take);
                        }));
    reply->set_id(ordered.id);
    reply->set_existed(ordered.existed);
    return absl::OkStatus();
  };
  absl::Status status = submit();
  context_.audit.Write({.who = admission.who,
                        .from = call->peer(),
                        .what = "Submit",
                        .job = reply->id(),
                        .status = status});
  return ToGrpc(status);
}

grpc::Status ControllerService::ListJobs(grpc::ServerContext* call,
                                         const v1::ListJobsRequest* request,
                                         v1::ListJobsReply* reply) {
  Admission admission = Admit(*call, Role::kViewer);
  if (!admission.status.ok()) return ToGrpc(admission.status);
  auto jobs = AskNow<std::vector<JobReport>>(
      context_.loop, *call, [this, all = request->all()] { return context_.controller.Jobs(all); });
  if (!jobs.ok()) return ToGrpc(jobs.status());
  for (const JobReport& job : *jobs) {
    if (request->user().empty() || job.job.spec.user == request->user()) {
      *reply->add_jobs() = ToMessage(job, false);
    }
  }
  return grpc::Status::OK;
}

grpc::Status ControllerService::GetJob(grpc::ServerContext* call, const v1::GetJobRequest* request,
                                       v1::Job* reply) {
  Admission admission = Admit(*call, Role::kViewer);
  if (!admission.status.ok()) return ToGrpc(admission.status);
  auto job = AskNow<JobReport>(context_.loop, *call,
                               [this, id = request->id()] { return context_.controller.Find(id); });
  if (!job.ok()) return ToGrpc(job.status());
  *reply = ToMessage(*job, true);
  return grpc::Status::OK;
}

grpc::Status ControllerService::CancelJob(grpc::ServerContext* call,
                                          const v1::CancelJobRequest* request, v1::Job* reply) {
  Admission admission = Admit(*call, Role::kSubmitter);
  std::string id = request->id();
  auto cancel = [&]() -> absl::Status {
    AM_RETURN_IF_ERROR(admission.status);
    const Identity& who = admission.who;
    std::optional<Duration> grace;
    if (request->grace_ms() != 0) grace = milliseconds(std::max<int64_t>(0, request->grace_ms()));
    AM_ASSIGN_OR_RETURN(JobReport found, AskNow<JobReport>(context_.loop, *call, [this, id] {
                          return context_.controller.Find(id);
                        }));
    id = found.job.spec.id;
    if (who.role < Role::kAdmin && found.job.spec.user != who.name) {
      return absl::PermissionDeniedError(absl::StrCat(
          id, " belongs to ", found.job.spec.user, "; cancelling the job of another takes admin"));
    }
    std::string because = absl::StrCat("cancelled by ", who.name);
    if (!request->reason().empty()) absl::StrAppend(&because, ": ", request->reason());
    AM_ASSIGN_OR_RETURN(JobReport job, Ask<JobReport>(context_.loop, *call, [=, this](auto take) {
                          context_.controller.Cancel(id, grace, because, take);
                        }));
    *reply = ToMessage(job, true);
    return absl::OkStatus();
  };
  absl::Status status = cancel();
  context_.audit.Write({.who = admission.who,
                        .from = call->peer(),
                        .what = "CancelJob",
                        .job = id,
                        .status = status});
  return ToGrpc(status);
}

grpc::Status ControllerService::WatchEvents(grpc::ServerContext* call,
                                            const v1::WatchEventsRequest* request,
                                            grpc::ServerWriter<v1::Event>* out) {
  Admission admission = Admit(*call, Role::kViewer);
  if (!admission.status.ok()) return ToGrpc(admission.status);
  std::string job;
  if (!request->job().empty()) {
    auto found = AskNow<JobReport>(
        context_.loop, *call, [this, id = request->job()] { return context_.controller.Find(id); });
    if (!found.ok()) return ToGrpc(found.status());
    job = found->job.spec.id;
  }
  Watcher watcher(context_, job);
  int64_t seq = request->after_seq();
  while (!call->IsCancelled()) {
    auto page = AskNow<EventPage>(context_.loop, *call,
                                  [this, job, seq] { return ReadPage(context_.store, job, seq); });
    if (!page.ok()) return ToGrpc(page.status());
    for (const StoredEvent& event : page->events) {
      if (!out->Write(ToMessage(event))) return grpc::Status::OK;
      seq = event.seq;
    }
    if (!page->events.empty()) continue;
    if (!request->follow() || page->last) break;
    watcher.bell().Wait(kCallPatience);
  }
  return grpc::Status::OK;
}

grpc::Status ControllerService::ReadLogs(grpc::ServerContext* call,
                                         const v1::ReadLogsRequest* request,
                                         grpc::ServerWriter<v1::LogChunk>* out) {
  Admission admission = Admit(*call, Role::kViewer);
  if (!admission.status.ok()) return ToGrpc(admission.status);
  auto find = [&] {
    return AskNow<LogState>(context_.loop, *call, [this, id = request->job()] {
      return FindLogs(context_.controller, id);
    });
  };
  absl::StatusOr<LogState> state = find();
  if (!state.ok()) return ToGrpc(state.status());
  if (request->rank() < -1 || request->rank() >= state->world_size) {
    return ToGrpc(
        absl::InvalidArgumentError(absl::StrCat("rank ", request->rank(), ": ", state->job,
                                                " has the ranks 0 to ", state->world_size - 1)));
  }
  bool one_attempt = request->attempt() > 0;
  if (request->attempt() > state->attempt || (state->attempt == 0 && !request->follow())) {
    return ToGrpc(absl::NotFoundError(absl::StrCat(
        state->job, " has ",
        state->attempt == 0 ? "not started yet" : absl::StrCat("attempts 1 to ", state->attempt))));
  }
  Watcher watcher(context_, state->job);
  std::optional<AttemptLogs> logs;
  while (!call->IsCancelled()) {
    state = find();  // before the reading: what ended has written all of its log
    if (!state.ok()) return ToGrpc(state.status());
    int64_t last = one_attempt ? request->attempt() : state->attempt;
    if (!logs && last > 0) logs.emplace(context_.state_dir, *state, last, *request);
    if (logs) {
      absl::StatusOr<bool> written = logs->WriteTo(*out);
      if (!written.ok()) return ToGrpc(written.status());
      if (!*written) return grpc::Status::OK;
      if (logs->attempt() < last) {
        logs.emplace(context_.state_dir, *state, logs->attempt() + 1, *request);
        continue;
      }
    }
    if (!request->follow() || state->finished || last < state->attempt) break;
    watcher.bell().Wait(kLogPatience);
  }
  return grpc::Status::OK;
}

grpc::Status ControllerService::ListNodes(grpc::ServerContext* call, const v1::ListNodesRequest*,
                                          v1::ListNodesReply* reply) {
  Admission admission = Admit(*call, Role::kViewer);
  if (!admission.status.ok()) return ToGrpc(admission.status);
  auto nodes = AskNow<std::vector<NodeStatus>>(context_.loop, *call,
                                               [this] { return context_.controller.Nodes(); });
  if (!nodes.ok()) return ToGrpc(nodes.status());
  for (const NodeStatus& node : *nodes) *reply->add_nodes() = ToMessage(node, context_.clock);
  return grpc::Status::OK;
}

grpc::Status ControllerService::DrainNode(grpc::ServerContext* call,
                                          const v1::DrainNodeRequest* request, v1::Node* reply) {
  Admission admission = Admit(*call, Role::kAdmin);
  auto drain = [&]() -> absl::Status {
    AM_RETURN_IF_ERROR(admission.status);
    AM_ASSIGN_OR_RETURN(
        NodeStatus node, Ask<NodeStatus>(context_.loop, *call, [this, asked = *request](auto take) {
          context_.controller.Drain(asked.name(), !asked.undrain(), asked.reason(), take);
        }));
    *reply = ToMessage(node, context_.clock);
    return absl::OkStatus();
  };
  absl::Status status = drain();
  context_.audit.Write({.who = admission.who,
                        .from = call->peer(),
                        .what = request->undrain() ? "UndrainNode" : "DrainNode",
                        .node = request->name(),
                        .status = status});
  return ToGrpc(status);
}

}  // namespace am::controller
