// am-rank: one training process, of one GPU or one share of the CPU. Started by am-worker's agent
// or by `amctl run`; usage: am-rank RANK_SPEC.json, with RANK, LOCAL_RANK and WORLD_SIZE in the
// environment (worker/rank_io/README.md).
#include <c10/util/Exception.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "common/error.h"
#include "common/exit_status.h"
#include "worker/engine/core/memory.h"
#include "worker/engine/rank_link.h"
#include "worker/engine/trainer.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {
namespace {

struct Failure {
  const char* kind;
  int exit_status;
};
Failure Describe(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUser:
      return {"user", kRankExitUserError};
    case ErrorKind::kIo:
      return {"io", kRankExitIo};
    case ErrorKind::kPeerLost:
      return {"peer_lost", kRankExitPeerLost};
    case ErrorKind::kInternal:
      break;
  }
  return {"internal", kRankExitInternal};
}

int Fail(RankLink& link, Failure failure, const std::string& message) {
  link.Send(RankEventType::kFailed, {{"kind", failure.kind}, {"message", message}});
  return failure.exit_status;
}

// The only place that catches: what was thrown becomes an event and an exit status.
int RunRank(const RankSpec& spec, const RankIdentity& identity) {
  RankLink link(identity, spec.attempt);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  link.Send(RankEventType::kHello, {{"pid", getpid()}, {"host", host}, {"device", "cpu"}});
  try {
    return Trainer(spec, identity, link).Run();
  } catch (const Error& error) {
    return Fail(link, Describe(error.kind()), error.what());
  } catch (const c10::Error& error) {
    return Fail(link, Describe(ErrorKind::kInternal), error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Fail(link, Describe(ErrorKind::kInternal), error.what());
  }
}

int Main(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "--help") == 0) {
    std::fprintf(stderr,
                 "usage: am-rank RANK_SPEC.json\nStarted by `amctl run`; by hand with RANK, "
                 "LOCAL_RANK, WORLD_SIZE, "
                 "MASTER_ADDR and MASTER_PORT set.\n");
    return kRankExitUserError;
  }
  try {
    return RunRank(ReadRankSpec(argv[1]), RankIdentity::FromEnvironment());
  } catch (const Error& error) {
    std::fprintf(stderr, "am-rank: %s\n", error.what());
    return Describe(error.kind()).exit_status;
  }
}

}  // namespace
}  // namespace am::engine

int main(int argc, char** argv) {
  am::engine::KeepFreedMemory();
  const int status = am::engine::Main(argc, argv);
  // Static destructors of LibTorch take long and can wait for threads of lost peers; everything of
  // ours is on disk.
  std::fflush(nullptr);
  _exit(status);
}
