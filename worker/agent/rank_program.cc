#include "worker/agent/rank_program.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/file.h"

namespace am::agent {
namespace {

std::string FolderOfThisProgram() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0) return ".";
  std::string text(path, static_cast<size_t>(n));
  return text.substr(0, text.rfind('/'));
}

}  // namespace

absl::StatusOr<std::string> FindRankProgram() {
  std::string given = Getenv("AMCTL_RANK_PROGRAM");
  if (!given.empty()) {
    if (access(given.c_str(), X_OK) == 0) return given;
    return ErrnoStatus(errno, "cannot execute AMCTL_RANK_PROGRAM " + given);
  }
  std::string here = FolderOfThisProgram();
  std::vector<std::string> candidates = {here + "/am-rank", here + "/../libexec/amctl/am-rank"};
  for (absl::string_view folder : absl::StrSplit(Getenv("PATH"), ':', absl::SkipEmpty())) {
    candidates.push_back(absl::StrCat(folder, "/am-rank"));
  }
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return absl::NotFoundError(absl::StrCat(
      "am-rank was not found: neither ", candidates[0], " nor ", candidates[1],
      " nor on PATH; build it (the default of scripts/build) or set AMCTL_RANK_PROGRAM"));
}

}  // namespace am::agent
