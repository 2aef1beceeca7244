// RunJob: a controller and an agent in this process see one job through.
//
// The same classes as in the daemons, and the same gRPC service between them, on a unix socket of
// our own. The caller's thread becomes the controller's loop; the agent, the spawner and the output
// have one thread each.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/job/job.h"
#include "launcher/cli/progress.h"
#include "launcher/cli/progress_output.h"

namespace am::cli {

// Signals that ask a job to leave: TERM, USR1, INT, and HUP unless it is ignored. Blocked before
// the first thread starts, so that only the loop hears them.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct RunJobOptions {
  std::string state_dir;
  std::string runtime_dir;  // of sockets: $XDG_RUNTIME_DIR; empty or not usable: a folder in the
                            // temporary one
  std::string temporary_dir = "/tmp";
  std::string rank_program;
  std::string working_directory;  // paths below it are shown without it
  std::vector<std::string> environment;
  int cores = 1;
  int live_width = 80;
};

// Blocks until the job has finished and nothing of it is left running. The exit status of amctl.
int RunJob(controller::JobSpec spec, const RunJobOptions& options, StopSignals& signals,
           Progress progress, ProgressOutput& output);

// ---- decisions, for tests ----

// The n-th signal (from 1): the first gives the grace, the second shortens it, the third ends it.
TimePoint LeaveBy(int nth, TimePoint now, Duration grace);

}  // namespace am::cli
