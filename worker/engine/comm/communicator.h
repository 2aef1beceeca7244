// Communicator: the collectives of one mesh axis. All tensors are contiguous; shapes and dtypes are checked before the
// backend sees them (a wrongly shaped reduce-scatter would abort the process inside Gloo).
//
// A dead peer throws am::Error (kPeerLost) in every member at once or after the timeout at the latest.
// Used from the training thread only; calls must be made in the same order by every member.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace am::engine {

// A collective in flight. Wait() returns when the result is there, or throws; must be called exactly once.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void Wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual std::unique_ptr<Pending> AllReduceSum(at::Tensor& tensor) = 0;  // in place
  virtual std::unique_ptr<Pending> AllReduceMax(at::Tensor& tensor) = 0;
  // out: [size * n], in: [n], same dtype; member r's input lands at out[r * n].
  virtual std::unique_ptr<Pending> AllGather(at::Tensor& out, const at::Tensor& in) = 0;
  // out: [n], in: [size * n], same dtype; the sum over members of their r-th n elements lands at member r.
  virtual std::unique_ptr<Pending> ReduceScatterSum(at::Tensor& out, const at::Tensor& in) = 0;
  virtual std::unique_ptr<Pending> Broadcast(at::Tensor& tensor, int root) = 0;
  virtual void Barrier() = 0;
};

// A group of one: every call returns at once.
std::unique_ptr<Communicator> MakeSelfCommunicator();

struct RendezvousOptions {
  std::string backend = "gloo";  // "gloo" or "nccl"
  int rank = 0;
  int world_size = 1;
  std::string host = "127.0.0.1";
  int port = 0;
  int listen_fd = -1;   // rank 0: an inherited listening socket, -1: bind host:port
  std::string prefix;   // of every key in the store: "<job>/<attempt>"
  std::chrono::milliseconds timeout{60'000};
};

// The process groups of a job: one store, one group of all ranks, and sub-groups made from it in an order that every
// rank shares.
class ProcessGroups {
 public:
  static std::unique_ptr<ProcessGroups> Join(const RendezvousOptions& options);
  virtual ~ProcessGroups() = default;
  virtual std::unique_ptr<Communicator> World() = 0;
  // Collective over all ranks: `partition` lists disjoint groups that cover the world, the same on every rank. Returns this rank's.
  virtual std::unique_ptr<Communicator> Split(const std::string& name, const std::vector<std::vector<int>>& partition) = 0;
  // Collective: all ranks once more, with connections and a timeout of its own, for use from another thread than World()'s. Over
  // Gloo where there is one, for it carries the barriers of files and not tensors.
  virtual std::unique_ptr<Communicator> Duplicate(const std::string& name, std::chrono::milliseconds timeout) = 0;
};

}  // namespace am::engine
