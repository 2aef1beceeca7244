#include <algorithm>

#include "controller/store/store.h"

namespace am::controller {
namespace {

// For tests and the simulator: keeps what the process keeps.
class MemoryStore final : public Store {
 public:
  absl::StatusOr<StoredState> Load() override {
    StoredState state{.nodes = nodes_, .last_seq = static_cast<int64_t>(events_.size())};
    std::ranges::copy_if(jobs_, std::back_inserter(state.jobs),
                         [](const StoredJob& job) { return !job.terminal; });
    return state;
  }

  absl::Status Commit(const Changes& changes) override {
    for (const StoredJob& job : changes.jobs) {
      auto known = std::ranges::find(jobs_, job.id, &StoredJob::id);
      bool taken = known == jobs_.end() && !job.client_token.empty() &&
                   std::ranges::count(jobs_, job.client_token, &StoredJob::client_token) > 0;
      if (taken) return absl::InternalError("the client token belongs to another job");
    }
    for (const StoredJob& job : changes.jobs) {
      auto known = std::ranges::find(jobs_, job.id, &StoredJob::id);
      if (known == jobs_.end()) {
        jobs_.push_back(job);
      } else {
        known->terminal = job.terminal;
        known->document = job.document;
      }
    }
    for (StoredEvent event : changes.events) {
      event.seq = static_cast<int64_t>(events_.size()) + 1;
      events_.push_back(std::move(event));
    }
    for (const StoredNode& node : changes.nodes) {
      auto known = std::ranges::find(nodes_, node.name, &StoredNode::name);
      if (known == nodes_.end()) {
        nodes_.push_back(node);
      } else {
        *known = node;
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<StoredJob>> Find(const std::string& id) override {
    return One(&StoredJob::id, id);
  }
  absl::StatusOr<std::optional<StoredJob>> FindByToken(const std::string& token) override {
    return One(&StoredJob::client_token, token);
  }

  absl::StatusOr<std::vector<StoredJob>> Ended(int64_t limit) override {
    std::vector<StoredJob> ended;
    for (auto job = jobs_.rbegin(); job != jobs_.rend(); ++job) {
      if (job->terminal && static_cast<int64_t>(ended.size()) < limit) ended.push_back(*job);
    }
    return ended;
  }

  absl::StatusOr<std::vector<StoredEvent>> Events(const std::string& job, int64_t after_seq,
                                                  int64_t limit) override {
    std::vector<StoredEvent> events;
    for (const StoredEvent& event : events_) {
      bool wanted = event.seq > after_seq && (job.empty() || event.job == job);
      if (wanted && static_cast<int64_t>(events.size()) < limit) events.push_back(event);
    }
    return events;
  }

  absl::StatusOr<bool> HoldLease(const std::string& owner, int64_t now_unix_ns,
                                 int64_t ttl_ns) override {
    if (owner_ != owner && now_unix_ns < until_) return false;
    owner_ = owner;
    until_ = now_unix_ns + ttl_ns;
    return true;
  }

 private:
  std::optional<StoredJob> One(std::string StoredJob::*field, const std::string& value) const {
    auto found = std::ranges::find(jobs_, value, field);
    return found == jobs_.end() ? std::nullopt : std::optional<StoredJob>(*found);
  }

  std::vector<StoredJob> jobs_;  // by age
  std::vector<StoredEvent> events_;
  std::vector<StoredNode> nodes_;
  std::string owner_;
  int64_t until_ = 0;
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore() { return std::make_unique<MemoryStore>(); }

}  // namespace am::controller
