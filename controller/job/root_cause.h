// Which rank brought an attempt down. Pure.
//
// When one rank dies, the others soon fail too, each with an error of its own about a lost peer:
// what the user needs is the first one. A user error outranks all (every rank may meet it); a lost
// peer never is the cause where another rank has a reason of its own.
#pragma once

#include <optional>
#include <string>

#include "controller/job/job.h"
#include "controller/job/observation.h"

namespace am::controller {

// How long the real cause may come after the first rank that merely lost a peer.
inline constexpr Duration kPeerLostPatience = std::chrono::seconds(1);

// Ended by itself, neither well nor because it saved and left.
bool Failed(const ObservedRank& rank);

// Nothing when no rank failed. `kind` is kPeerLost when only victims are seen so far.
std::optional<Failure> FindRootCause(const Observed& observed);

// "rank 1 was killed by signal 9 (SIGKILL)"; "rank 0: the data set is empty (user error)".
std::string Describe(const Failure& failure);

}  // namespace am::controller
