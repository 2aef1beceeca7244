#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "common/error.h"
#include "worker/engine/comm/address.h"
#include "worker/engine/comm/backends.h"
#include "worker/engine/comm/checks.h"
#include "worker/engine/comm/communicator.h"

namespace am::engine {
namespace {

// What an exception says, without LibTorch's stack trace.
std::string Reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

// Runs `call` and turns the backend's exceptions into ours. What is not a complaint of LibTorch's
// own checks is the network: Gloo throws plain runtime errors when a connection closes or a wait
// times out.
template <typename Call>
auto Translated(const std::string& what, Call&& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const bool complaint = dynamic_cast<const c10::Error*>(&error) != nullptr &&
                           dynamic_cast<const c10::DistError*>(&error) == nullptr;
    if (complaint) throw InternalError(what + ": " + Reason(error));
    throw PeerLostError(what + ": a peer was lost: " + Reason(error));
  }
}

class Done : public Pending {
 public:
  void Wait() override {}
};

class WorkPending : public Pending {
 public:
  WorkPending(const char* what, c10::intrusive_ptr<c10d::Work> work)
      : what_(what), work_(std::move(work)) {}
  void Wait() override {
    Translated(what_, [&] { work_->wait(); });
  }

 private:
  const char* what_;
  c10::intrusive_ptr<c10d::Work> work_;  // holds the tensors until it is done
};

class BackendCommunicator : public Communicator {
 public:
  explicit BackendCommunicator(BackendPtr backend) : backend_(std::move(backend)) {}

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }

  std::unique_ptr<Pending> AllReduceSum(at::Tensor& tensor) override {
    return AllReduce(tensor, c10d::ReduceOp::SUM);
  }
  std::unique_ptr<Pending> AllReduceMax(at::Tensor& tensor) override {
    return AllReduce(tensor, c10d::ReduceOp::MAX);
  }
  std::unique_ptr<Pending> AllGather(at::Tensor& out, const at::Tensor& in) override {
    CheckAllGather(out, in, size());
    at::Tensor flat_out = out.view({-1});
    at::Tensor flat_in = in.view({-1});
    return Start("all-gather", in, [&] { return backend_->_allgather_base(flat_out, flat_in); });
  }
  std::unique_ptr<Pending> ReduceScatterSum(at::Tensor& out, const at::Tensor& in) override {
    CheckReduceScatter(out, in, size());
    at::Tensor flat_out = out.view({-1});
    at::Tensor flat_in = in.view({-1});
    return Start("reduce-scatter", out,
                 [&] { return backend_->_reduce_scatter_base(flat_out, flat_in); });
  }
  std::unique_ptr<Pending> Broadcast(at::Tensor& tensor, int root) override {
    CheckInPlace("broadcast", tensor);
    CheckRoot(root, size());
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return Start("broadcast", tensor, [&] { return backend_->broadcast(tensors, options); });
  }
  void Barrier() override {
    Translated("barrier", [&] {
      c10d::BarrierOptions options;
#ifdef USE_C10D_NCCL
      if (backend_->getBackendName() == "nccl") options.device = CurrentCudaDevice();
#endif
      backend_->barrier(options)->wait();
    });
  }

 private:
  std::unique_ptr<Pending> AllReduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType op) {
    CheckInPlace("all-reduce", tensor);
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return Start("all-reduce", tensor, [&] { return backend_->allreduce(tensors, options); });
  }

  // `smallest` is the smaller tensor of the call: with nothing in it every member skips the backend
  // alike.
  template <typename Call>
  std::unique_ptr<Pending> Start(const char* what, const at::Tensor& smallest, Call&& call) {
    const bool on_cpu = smallest.device().is_cpu();
    if (on_cpu != (backend_->getBackendName() == "gloo")) {
      throw InternalError(std::string(what) + ": the backend " + backend_->getBackendName() +
                          " does not carry tensors of " + smallest.device().str());
    }
    if (smallest.numel() == 0) return std::make_unique<Done>();
    return std::make_unique<WorkPending>(what, Translated(what, call));
  }

  BackendPtr backend_;
};

class SelfProcessGroups : public ProcessGroups {
 public:
  std::unique_ptr<Communicator> World() override { return MakeSelfCommunicator(); }
  std::unique_ptr<Communicator> Split(const std::string&,
                                      const std::vector<std::vector<int>>&) override {
    return MakeSelfCommunicator();
  }
  std::unique_ptr<Communicator> Duplicate(const std::string&, std::chrono::milliseconds) override {
    return MakeSelfCommunicator();
  }
};

StorePtr OpenStore(const RendezvousOptions& options, const std::string& address) {
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(options.port);
  store_options.timeout = options.timeout;
  store_options.waitWorkers = false;
  if (options.rank == 0) {
    store_options.isServer = true;
    store_options.masterListenFd =
        options.listen_fd >= 0 ? options.listen_fd : ListenOn(address, options.port);
  }
  try {
    return c10::make_intrusive<c10d::TCPStore>(address, store_options);
  } catch (const std::exception& error) {
    throw PeerLostError("rendezvous: rank " + std::to_string(options.rank) +
                        " could not reach the store of rank 0 at " + address + " port " +
                        std::to_string(options.port) + ": " + Reason(error));
  }
}

// Every rank leaves a key and waits for the keys of all others, so that the one that waits can say
// who is missing.
void MeetAll(const StorePtr& store, const RendezvousOptions& options) {
  const auto key = [](int rank) { return "joined/" + std::to_string(rank); };
  std::vector<std::string> keys;
  for (int rank = 0; rank < options.world_size; ++rank) keys.push_back(key(rank));
  std::string problem;
  try {
    store->set(key(options.rank), std::vector<uint8_t>{1});
    store->wait(keys, options.timeout);
    return;
  } catch (const std::exception& error) {
    problem = Reason(error);
  }
  std::string missing;
  try {
    for (int rank = 0; rank < options.world_size; ++rank) {
      if (!store->check({key(rank)}))
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
  } catch (const std::exception&) {
    throw PeerLostError("rendezvous: rank 0 and its store went away: " + problem);
  }
  throw PeerLostError("rendezvous: of " + std::to_string(options.world_size) + " ranks, rank(s) " +
                      missing + " did not join within " + std::to_string(options.timeout.count()) +
                      " ms");
}

class StoreProcessGroups : public ProcessGroups {
 public:
  explicit StoreProcessGroups(const RendezvousOptions& options) : options_(options) {
    const std::string address = ResolveHost(options.host, options.port);
    local_address_ = LocalAddressTowards(address, options.port);
    store_ = c10::make_intrusive<c10d::PrefixStore>(options.prefix, OpenStore(options, address));
    MeetAll(store_, options);
    world_ = Connect("world", options.rank, options.world_size, options_);
  }

  std::unique_ptr<Communicator> World() override {
    return std::make_unique<BackendCommunicator>(world_);
  }

  std::unique_ptr<Communicator> Split(const std::string& name,
                                      const std::vector<std::vector<int>>& partition) override {
    CheckPartition(name, partition);
    const std::string prefix = "split/" + std::to_string(splits_++) + "/" + name + "/";
    for (size_t i = 0; i < partition.size(); ++i) {
      const std::vector<int>& group = partition[i];
      const auto self = std::find(group.begin(), group.end(), options_.rank);
      if (self == group.end()) continue;
      if (group.size() == 1) return MakeSelfCommunicator();
      if (std::ssize(group) == options_.world_size && std::is_sorted(group.begin(), group.end())) {
        return World();
      }
      return std::make_unique<BackendCommunicator>(
          Connect(prefix + std::to_string(i), static_cast<int>(self - group.begin()),
                  static_cast<int>(group.size()), options_));
    }
    throw InternalError("split " + name + ": unreachable");
  }

  std::unique_ptr<Communicator> Duplicate(const std::string& name,
                                          std::chrono::milliseconds timeout) override {
    RendezvousOptions options = options_;
    options.timeout = timeout;
#ifdef AMCTL_HAVE_GLOO
    options.backend = "gloo";
#endif
    return std::make_unique<BackendCommunicator>(
        Connect("again/" + std::to_string(splits_++) + "/" + name, options_.rank,
                options_.world_size, options));
  }

 private:
  void CheckPartition(const std::string& name, const std::vector<std::vector<int>>& partition) {
    std::vector<int> ranks;
    for (const auto& group : partition) ranks.insert(ranks.end(), group.begin(), group.end());
    std::sort(ranks.begin(), ranks.end());
    bool covers = std::ssize(ranks) == options_.world_size;
    for (int i = 0; covers && i < options_.world_size; ++i) covers = ranks[i] == i;
    if (!covers) {
      throw InternalError("split " + name + ": the groups must hold each of the " +
                          std::to_string(options_.world_size) + " ranks exactly once");
    }
  }

  BackendPtr Connect(const std::string& name, int rank, int size,
                     const RendezvousOptions& options) {
    StorePtr store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    return Translated("connecting the group " + name, [&]() -> BackendPtr {
#ifdef AMCTL_HAVE_GLOO
      if (options.backend == "gloo") {
        return MakeGlooBackend(store, rank, size, local_address_, options.timeout);
      }
#endif
#ifdef USE_C10D_NCCL
      if (options.backend == "nccl") {
        return MakeNcclBackend(store, rank, size, options.timeout);
      }
#endif
      throw UserError("distributed.backend: '" + options.backend +
                      "' is not in this build; it has:"
#ifdef AMCTL_HAVE_GLOO
                      " gloo"
#endif
#ifdef USE_C10D_NCCL
                      " nccl"
#endif
      );
    });
  }

  RendezvousOptions options_;
  std::string local_address_;
  StorePtr store_;
  BackendPtr world_;
  int splits_ = 0;
};

}  // namespace

std::unique_ptr<ProcessGroups> ProcessGroups::Join(const RendezvousOptions& options) {
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw UserError("rendezvous: rank " + std::to_string(options.rank) + " of " +
                    std::to_string(options.world_size) + "; RANK must be below WORLD_SIZE");
  }
  if (options.world_size == 1) return std::make_unique<SelfProcessGroups>();
  return std::make_unique<StoreProcessGroups>(options);
}

}  // namespace am::engine
