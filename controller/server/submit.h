// Submit: what a client asks for becomes an order that the controller can take: the recipe is
// loaded and laid out again on this side, with the client's overrides, environment and folder.
//
// Looks at the file system; on the thread of the call, never on the loop.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "amctl/v1/controller.pb.h"
#include "controller/daemon/controller.h"
#include "launcher/plan/cluster.h"

namespace am::controller {

struct Submission {
  Order order;
  std::string warnings;  // rendered, a line each
};

// InvalidArgument carries the rendered diagnostics. `machine` is what a node is like; the request
// says how many of them, and how many ranks on each.
absl::StatusOr<Submission> ReadSubmission(const amctl::v1::SubmitRequest& request,
                                          const std::string& user, const plan::Cluster& machine,
                                          int64_t now_unix_ns);

}  // namespace am::controller
