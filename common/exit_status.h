// Exit statuses of the programs: what a script or a supervisor may rely on.
#pragma once

namespace am {

// amctl
inline constexpr int kExitDone = 0;
inline constexpr int kExitJobFailed = 1;
inline constexpr int kExitUsage = 2;        // bad usage or an invalid recipe; nothing was started
inline constexpr int kExitUnreachable = 3;  // the controller cannot be reached
inline constexpr int kExitRefused = 4;      // credential or quota
inline constexpr int kExitCancelled = 5;
inline constexpr int kExitInfrastructure = 6;  // infrastructure failed, retries exhausted
inline constexpr int kExitSavedAndLeft = 75;   // saved and left (TERM, USR1), to be requeued
inline constexpr int kExitInterrupted = 130;   // Ctrl-C, after a checkpoint

// am-rank; else it ends by its signal
inline constexpr int kRankExitUserError = 2;  // never retried
inline constexpr int kRankExitInternal = 70;
inline constexpr int kRankExitIo = 74;
inline constexpr int kRankExitSavedAndLeft = 75;
inline constexpr int kRankExitPeerLost = 76;

}  // namespace am
