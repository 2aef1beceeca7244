// RankEvent: what a rank says, one JSON object a line on an inherited descriptor; and ControlMessage, what it is told.
//
// The table of types and fields is in worker/rank_io/README.md. A shell script can stand in for a rank:
//   echo '{"v":1,"type":"ready","seq":1,"attempt":1,"rank":0,"t_unix_ns":0,"t_mono_ns":0}' >&$AMCTL_EVENT_FD
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace am {

enum class RankEventType {
  kHello,            // the process runs: pid, host, device
  kReady,            // model loaded, first batch ready: step, epoch, restored_from
  kStep,             // rank 0: step, epoch, loss, grad_norm, lr, mem_gib, tps, tps_per_gpu, num_tokens, num_label_tokens, step_s
  kValidation,       // rank 0: name, step, epoch, loss, lr, num_label_tokens
  kCheckpointBegun,  // rank 0: step, epoch, path
  kCheckpointDone,   // rank 0: step, epoch, path, bytes, seconds
  kHeartbeat,        // every rank, each second: activity, step
  kWarning,          // message: something the user should read, training goes on
  kFailed,           // kind (user, io, peer_lost, internal), message
  kDone,             // reason: completed, saved_and_left, already_complete; step
};

struct RankEvent {
  RankEventType type = RankEventType::kHeartbeat;
  uint64_t seq = 0;
  int64_t attempt = 1;
  int rank = 0;
  int64_t t_unix_ns = 0;
  int64_t t_mono_ns = 0;
  nlohmann::json fields = nlohmann::json::object();  // what the type alone carries
};

std::string_view Name(RankEventType type);
std::string ToLine(const RankEvent& event);  // with the newline
// Nothing for a line that is no event of this version: the agent logs and drops it, never fails on it.
std::optional<RankEvent> ParseRankEvent(std::string_view line);

enum class ControlType { kRendezvous, kSave, kLeave, kDumpStacks };

struct ControlMessage {
  ControlType type = ControlType::kSave;
  std::string address;       // kRendezvous: host:port of the store
  std::string prefix;        // kRendezvous: of every key in the store, "<job>/<attempt>"
  int64_t grace_ms = 60000;  // kLeave: save at the step boundary and exit within this
};

std::string ToLine(const ControlMessage& message);
std::optional<ControlMessage> ParseControlMessage(std::string_view line);

// The lines of a training log, without newline; empty for events that print none.
//   step 4 | epoch 0 | loss 1.5514 | grad_norm 102.0000 | mem: 11.66 GiB | tps 6924.50 | lr 1.00e-05
//   [val] step 20 | epoch 0 | loss 0.2469
//   Saving checkpoint to checkpoints/epoch_0_step_10
std::string LogLine(const RankEvent& event);

// Names of the environment variables through which descriptors (decimal numbers) reach a rank.
inline constexpr char kEventFdEnv[] = "AMCTL_EVENT_FD";        // write RankEvent lines
inline constexpr char kControlFdEnv[] = "AMCTL_CONTROL_FD";    // read ControlMessage lines
inline constexpr char kLifelineFdEnv[] = "AMCTL_LIFELINE_FD";  // end of file: the supervisor is gone, exit at once
inline constexpr char kStoreFdEnv[] = "AMCTL_STORE_FD";        // rank 0: a bound, listening TCP socket for the store

}  // namespace am
