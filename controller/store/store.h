// Store: what the controller must not forget. Jobs as JSON documents, an append-only table of
// events, leases. An interface, because Kubernetes brings its own; SqliteStore and MemoryStore are
// held to one test suite.
//
// One writer, the controller's loop: it collects the changes of a turn and commits them in one
// transaction before any of them is answered or acted upon.
//   AM_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenSqliteStore(dir + "/controller.db"));
//   AM_ASSIGN_OR_RETURN(StoredState state, store->Load());
//   AM_RETURN_IF_ERROR(store->Commit({.jobs = {...}, .events = {...}}));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace am::controller {

struct StoredJob {
  std::string id;
  std::string client_token;  // unique where not empty
  bool terminal = false;     // ended jobs are listed apart and pruned
  std::string document;      // job_json.h: spec, stop request, status
};

struct StoredEvent {
  int64_t seq = 0;  // given by the store, grows by one
  std::string job;  // empty: of the controller or a node
  int64_t t_unix_ns = 0;
  std::string kind;
  std::string text;
  std::string json;
};

struct StoredNode {  // what an operator said about a node; what agents say is not stored
  std::string name;
  bool drained = false;
  std::string reason;
};

struct Changes {
  std::vector<StoredJob> jobs;      // put whole
  std::vector<StoredEvent> events;  // seq is ignored
  std::vector<StoredNode> nodes;
  bool empty() const { return jobs.empty() && events.empty() && nodes.empty(); }
};

struct StoredState {
  std::vector<StoredJob> jobs;  // those that have not ended, by age
  std::vector<StoredNode> nodes;
  int64_t last_seq = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual absl::StatusOr<StoredState> Load() = 0;
  // All or nothing, durable when it returns. ResourceExhausted where the disk is full; the changes
  // may be committed again.
  virtual absl::Status Commit(const Changes& changes) = 0;

  virtual absl::StatusOr<std::optional<StoredJob>> Find(const std::string& id) = 0;
  virtual absl::StatusOr<std::optional<StoredJob>> FindByToken(const std::string& token) = 0;
  virtual absl::StatusOr<std::vector<StoredJob>> Ended(int64_t limit) = 0;  // newest first
  virtual absl::StatusOr<std::vector<StoredEvent>> Events(const std::string& job, int64_t after_seq,
                                                          int64_t limit) = 0;

  // One controller at a time owns the store. True where `owner` holds the lease afterwards: it had
  // it, it was free, or it ran out. Renewed by calling again.
  virtual absl::StatusOr<bool> HoldLease(const std::string& owner, int64_t now_unix_ns,
                                         int64_t ttl_ns) = 0;
};

// WAL, full synchronisation, schema version with migrations. FailedPrecondition for a newer file,
// DataLoss for a damaged one, each with what to do. The folder is made with mode 0700.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);
std::unique_ptr<Store> MakeMemoryStore();

}  // namespace am::controller
