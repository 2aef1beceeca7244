// The two macros that Debian's Abseil lacks: return early on an error, unwrap a StatusOr.
//
//   AM_RETURN_IF_ERROR(MakeDirectories(path, 0700));
//   AM_ASSIGN_OR_RETURN(UniqueFd fd, OpenForWriting(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define AM_RETURN_IF_ERROR(expression)                                            \
  do {                                                                            \
    if (absl::Status am_status = (expression); !am_status.ok()) return am_status; \
  } while (false)

#define AM_CONCAT_INNER(a, b) a##b
#define AM_CONCAT(a, b) AM_CONCAT_INNER(a, b)

#define AM_ASSIGN_OR_RETURN(declaration, expression) \
  AM_ASSIGN_OR_RETURN_INNER(AM_CONCAT(am_status_or_, __LINE__), declaration, expression)

#define AM_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  declaration = std::move(*result)
