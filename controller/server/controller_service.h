// ControllerService: the API of controller.proto over the Controller. Translates and posts to its
// loop; decides nothing but who may call what.
//
// Every call has a thread of its own (gRPC's synchronous server), asks the loop, and waits for the
// answer. Streams keep nothing: WatchEvents reads the store a page at a time and is woken by news,
// ReadLogs reads the files, so a client that does not read costs a thread and no memory. Both end
// when the client goes.
//   ControllerService service(context, authenticate);
//   builder.RegisterService(&service);
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "amctl/v1/controller.grpc.pb.h"
#include "common/clock.h"
#include "common/event_loop.h"
#include "controller/daemon/controller.h"
#include "controller/server/audit_log.h"
#include "controller/server/auth.h"
#include "controller/store/store.h"
#include "launcher/plan/cluster.h"

namespace am::controller {

// What the service stands on; all of it outlives the server.
struct ServiceContext {
  EventLoop& loop;
  Controller& controller;  // on the loop
  Store& store;            // on the loop
  AuditLog& audit;
  const Clock& clock;
  plan::Cluster machine;  // what a node is like
  std::string state_dir;  // logs are in <state_dir>/jobs/<id>/attempt-<n>/rank-<r>.log
  std::string version;
  int64_t started_unix_ns = 0;
};

class ControllerService final : public amctl::v1::ControllerService::Service {
 public:
  // Who calls, by the header `authorization`, which may be empty.
  using Authenticate = std::function<absl::StatusOr<Identity>(std::string_view authorization)>;

  ControllerService(ServiceContext& context, Authenticate authenticate);

  grpc::Status Version(grpc::ServerContext*, const amctl::v1::VersionRequest*,
                       amctl::v1::VersionReply*) override;
  grpc::Status Submit(grpc::ServerContext*, const amctl::v1::SubmitRequest*,
                      amctl::v1::SubmitReply*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const amctl::v1::ListJobsRequest*,
                        amctl::v1::ListJobsReply*) override;
  grpc::Status GetJob(grpc::ServerContext*, const amctl::v1::GetJobRequest*,
                      amctl::v1::Job*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const amctl::v1::CancelJobRequest*,
                         amctl::v1::Job*) override;
  grpc::Status WatchEvents(grpc::ServerContext*, const amctl::v1::WatchEventsRequest*,
                           grpc::ServerWriter<amctl::v1::Event>*) override;
  grpc::Status ReadLogs(grpc::ServerContext*, const amctl::v1::ReadLogsRequest*,
                        grpc::ServerWriter<amctl::v1::LogChunk>*) override;
  grpc::Status ListNodes(grpc::ServerContext*, const amctl::v1::ListNodesRequest*,
                         amctl::v1::ListNodesReply*) override;
  grpc::Status DrainNode(grpc::ServerContext*, const amctl::v1::DrainNodeRequest*,
                         amctl::v1::Node*) override;

 private:
  struct Admission {
    Identity who;  // known even where the role does not reach
    absl::Status status;
  };
  Admission Admit(const grpc::ServerContext& call, Role role) const;

  ServiceContext& context_;
  Authenticate authenticate_;
};

}  // namespace am::controller
