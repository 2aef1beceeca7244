// StateLock: one controller at a time has a state directory.
//
// Between processes of one host a lock on a file decides: the kernel frees it with its process,
// whatever ended that, so a successor takes over at once and never beside one that still runs. The
// lease in the store stands for the host, against another one that has the directory mounted; it
// runs out by itself.
//   AM_ASSIGN_OR_RETURN(std::optional<UniqueFd> lock, TryLock(state_dir + "/controller.lock"));
//   AM_ASSIGN_OR_RETURN(bool held, store->HoldLease(LeaseOwner(), clock.UnixNanos(),
//   kLeaseTtl.count()));
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/unique_fd.h"

namespace am::controller {

inline constexpr Duration kLeaseTtl = std::chrono::seconds(15);
inline constexpr Duration kLeaseRenewal = std::chrono::seconds(5);

// The lock, held as long as the descriptor is open in any process; nothing where another one has
// it.
absl::StatusOr<std::optional<UniqueFd>> TryLock(const std::string& path);

// This host since its last start.
std::string LeaseOwner();

}  // namespace am::controller
