#include "controller/job/job_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace am::controller {
namespace {

using Json = nlohmann::json;
using Doing = GoodputLedger::Doing;

constexpr int kVersion = 1;

// Names of an enum's values, in their order. They are in stores: only ever appended to.
constexpr std::array kPhases = {"pending",  "starting",  "running", "restarting",
                                "stopping", "succeeded", "failed",  "cancelled"};
constexpr std::array kStops = {"suspend", "fail", "cancel"};
constexpr std::array kFailures = {"user",      "rank",        "signal",
                                  "peer_lost", "not_started", "agent_lost"};
constexpr std::array kDoings = {"queued",     "starting", "productive",
                                "checkpoint", "recovery", "nothing"};
constexpr std::array kRankStates = {"unknown", "started", "exited"};

template <size_t N>
const char* NameOf(const std::array<const char*, N>& names, auto value) {
  return names.at(static_cast<size_t>(value));
}

// Writing and reading are one walk: each type lists its fields once, and a Writer or a Reader
// visits them.
class Writer {
 public:
  explicit Writer(const Clocks& clocks) : clocks_(clocks) {}

  void Field(const char* key, const auto& value) { json_[key] = value; }
  void Field(const char* key, const Duration& value) { json_[key] = value.count(); }
  void Field(const char* key, const TimePoint& value) { json_[key] = clocks_.ToUnix(value); }
  template <class T>
  void Field(const char* key, const std::optional<T>& value) {
    if (value) Field(key, *value);
  }
  template <size_t N, class T>
  void Enum(const char* key, const std::array<const char*, N>& names, const T& value) {
    json_[key] = NameOf(names, value);
  }
  void Object(const char* key, const auto& value) {
    Writer inner(clocks_);
    Visit(inner, value);
    json_[key] = std::move(inner.json_);
  }
  template <class T>
  void Object(const char* key, const std::optional<T>& value) {
    if (value) Object(key, *value);
  }
  template <class T>
  void List(const char* key, const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) {
      Writer inner(clocks_);
      Visit(inner, value);
      list.push_back(std::move(inner.json_));
    }
    json_[key] = std::move(list);
  }

  Json Take() { return std::move(json_); }

 private:
  const Clocks& clocks_;
  Json json_ = Json::object();
};

// A field of the wrong type throws nlohmann's exception, which JobRecordFromJson catches.
class Reader {
 public:
  Reader(const Clocks& clocks, const Json& json) : clocks_(clocks), json_(json) {
    json.get_ref<const Json::object_t&>();  // throws where it is none
  }

  void Field(const char* key, auto& value) {
    if (auto found = json_.find(key); found != json_.end()) found->get_to(value);
  }
  void Field(const char* key, Duration& value) {
    if (auto found = json_.find(key); found != json_.end()) value = Duration(found->get<int64_t>());
  }
  void Field(const char* key, TimePoint& value) {
    if (auto found = json_.find(key); found != json_.end()) {
      value = clocks_.FromUnix(found->get<int64_t>());
    }
  }
  template <class T>
  void Field(const char* key, std::optional<T>& value) {
    if (json_.contains(key)) Field(key, value.emplace());
  }
  template <size_t N, class T>
  void Enum(const char* key, const std::array<const char*, N>& names, T& value) {
    auto found = json_.find(key);
    if (found == json_.end()) return;
    std::string name = found->get<std::string>();
    for (size_t i = 0; i < N; ++i) {
      if (name == names[i]) {
        value = static_cast<T>(i);
        return;
      }
    }
    throw std::invalid_argument(absl::StrCat(key, ": '", name, "' is not known"));
  }
  void Object(const char* key, auto& value) {
    auto found = json_.find(key);
    if (found == json_.end()) return;
    Reader inner(clocks_, *found);
    Visit(inner, value);
  }
  template <class T>
  void Object(const char* key, std::optional<T>& value) {
    if (json_.contains(key)) Object(key, value.emplace());
  }
  template <class T>
  void List(const char* key, std::vector<T>& values) {
    auto found = json_.find(key);
    if (found == json_.end()) return;
    for (const Json& item : found->get_ref<const Json::array_t&>()) {
      Reader inner(clocks_, item);
      Visit(inner, values.emplace_back());
    }
  }

 private:
  const Clocks& clocks_;
  const Json& json_;
};

// `T` is const for a Writer.
template <class T, class Plain>
concept Is = std::same_as<std::remove_const_t<T>, Plain>;

void Visit(auto& visitor, Is<NodeShare> auto& share) {
  visitor.Field("node", share.node);
  visitor.Field("slots", share.slots);
}

void Visit(auto& visitor, Is<Demand> auto& demand) {
  visitor.Field("nodes", demand.nodes);
  visitor.Field("ranks_per_node", demand.ranks_per_node);
  visitor.Field("segment_nodes", demand.segment_nodes);
  visitor.Field("gpus", demand.gpus);
}

void Visit(auto& visitor, Is<RestartPolicy> auto& policy) {
  visitor.Field("max_restarts", policy.max_restarts);
  visitor.Field("no_progress_limit", policy.no_progress_limit);
  visitor.Field("grace_ns", policy.grace);
  visitor.Field("other_nodes", policy.other_nodes);
}

void Visit(auto& visitor, Is<JobSpec> auto& spec) {
  visitor.Field("id", spec.id);
  visitor.Field("rank_spec_json", spec.rank_spec_json);
  visitor.Field("world_size", spec.world_size);
  visitor.Object("restart", spec.restart);
  visitor.Field("name", spec.name);
  visitor.Field("user", spec.user);
  visitor.Field("priority", spec.priority);
  visitor.Object("demand", spec.demand);
  visitor.Field("after", spec.after);
  visitor.Field("time_limit_ns", spec.time_limit);
  visitor.Field("client_token", spec.client_token);
  visitor.Field("submitted_unix_ns", spec.submitted_unix_ns);
  visitor.Field("recipe_yaml", spec.recipe_yaml);
  visitor.Field("recipe_file", spec.recipe_file);
  visitor.Field("working_directory", spec.working_directory);
  visitor.Field("environment", spec.environment);
  visitor.Field("checkpoint_dir", spec.checkpoint_dir);
  visitor.Field("total_steps", spec.total_steps);
}

void Visit(auto& visitor, Is<StopRequest> auto& stop) {
  visitor.Enum("kind", kStops, stop.kind);
  visitor.Field("leave_by_unix_ns", stop.leave_by);
  visitor.Field("because", stop.because);
}

void Visit(auto& visitor, Is<ExitState> auto& exit) {
  visitor.Field("code", exit.code);
  visitor.Field("signal", exit.signal);
  visitor.Field("core_dumped", exit.core_dumped);
}

void Visit(auto& visitor, Is<Failure> auto& failure) {
  visitor.Enum("kind", kFailures, failure.kind);
  visitor.Field("rank", failure.rank);
  visitor.Object("exit", failure.exit);
  visitor.Field("message", failure.message);
  visitor.Field("last_lines", failure.last_lines);
  visitor.Field("log_path", failure.log_path);
  visitor.Field("at_unix_ns", failure.at);
}

void Visit(auto& visitor, Is<JobStatus> auto& status) {
  visitor.Enum("phase", kPhases, status.phase);
  visitor.List("placement", status.placement);
  visitor.Field("attempt", status.attempt);
  visitor.Field("restarts", status.restarts);
  visitor.Field("attempts_without_progress", status.attempts_without_progress);
  visitor.Field("best_step", status.best_step);
  visitor.Field("step", status.step);
  visitor.Field("checkpoint", status.checkpoint);
  visitor.Field("started_unix_ns", status.started_unix_ns);
  visitor.Field("placed_unix_ns", status.placed_unix_ns);
  visitor.Field("ended_unix_ns", status.ended_unix_ns);
  visitor.Field("rendezvous_sent", status.rendezvous_sent);
  visitor.Field("leave_sent_unix_ns", status.leave_sent);
  visitor.Field("kill_sent", status.kill_sent);
  visitor.Object("failure", status.failure);
  visitor.Field("last_words", status.last_words);
  visitor.Field("suspended", status.suspended);
  visitor.Field("saved", status.saved);
}

void Visit(auto& visitor, Is<Goodput> auto& goodput) {
  visitor.Field("queued_ns", goodput.queued);
  visitor.Field("starting_ns", goodput.starting);
  visitor.Field("productive_ns", goodput.productive);
  visitor.Field("checkpoint_ns", goodput.checkpoint);
  visitor.Field("lost_work_ns", goodput.lost_work);
  visitor.Field("recovery_ns", goodput.recovery);
}

void Visit(auto& visitor, Is<GoodputLedger::State> auto& state) {
  visitor.Object("booked", state.booked);
  visitor.Field("at_risk_ns", state.at_risk);
  visitor.Enum("doing", kDoings, state.doing);
  visitor.Field("since_unix_ns", state.since);
}

void Visit(auto& visitor, Is<ObservedRank> auto& rank) {
  visitor.Enum("state", kRankStates, rank.state);
  visitor.Field("ready", rank.ready);
  visitor.Field("failed_kind", rank.failed_kind);
  visitor.Field("failed_message", rank.failed_message);
  visitor.Object("exit", rank.exit);
  visitor.Field("killed_because", rank.killed_because);
  visitor.Field("log_path", rank.log_path);
  visitor.Field("pid", rank.pid);
  visitor.Field("exited_at_unix_ns", rank.exited_at);
  visitor.Field("exit_order", rank.exit_order);
}

void Visit(auto& visitor, Is<JobRecord> auto& record) {
  visitor.Object("spec", record.job.spec);
  visitor.Object("stop", record.job.stop);
  visitor.Object("status", record.job.status);
  visitor.Object("goodput", record.goodput);
  visitor.Field("last_step_json", record.last_step_json);
  visitor.List("ranks", record.ranks);
}

}  // namespace

std::string ToJson(const JobRecord& record, const Clocks& clocks) {
  Writer writer(clocks);
  writer.Field("version", kVersion);
  Visit(writer, record);
  return writer.Take().dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<JobRecord> JobRecordFromJson(std::string_view json, const Clocks& clocks) {
  try {
    Json document = Json::parse(json);
    int version = document.at("version").get<int>();
    if (version > kVersion) {
      return absl::FailedPreconditionError(absl::StrCat("the job's document has version ", version,
                                                        ", this controller knows ", kVersion,
                                                        "; use the newer controller"));
    }
    JobRecord record;
    Reader reader(clocks, document);
    Visit(reader, record);
    return record;
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the job's document is damaged: ", error.what()));
  }
}

}  // namespace am::controller
