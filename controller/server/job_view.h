// What the API shows of jobs, nodes and events: the controller's structs as messages. Pure.
#pragma once

#include "amctl/v1/controller.pb.h"
#include "common/clock.h"
#include "controller/daemon/controller.h"
#include "controller/job/job.h"
#include "controller/store/store.h"

namespace am::controller {

// `ranks`: with a line for each.
amctl::v1::Job ToMessage(const JobReport& report, bool ranks);
amctl::v1::Node ToMessage(const NodeStatus& node, const Clock& clock);
amctl::v1::Event ToMessage(const StoredEvent& event);

// The exit status of amctl for a job that has finished. `interrupted`: it was asked to leave by
// Ctrl-C.
int ExitStatusOf(const Job& job, bool interrupted);

}  // namespace am::controller
