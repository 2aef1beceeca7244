// Who calls, and what they may. People bring a bearer token whose SHA-256 is in a file of mode
// 0600, one line each: NAME ROLE HASH. The token itself is never stored, logged or on a command
// line.
//   AM_ASSIGN_OR_RETURN(TokenFile tokens, TokenFile::Load("/etc/amctl/tokens"));
//   AM_ASSIGN_OR_RETURN(Identity who, tokens.Identify("Bearer 7h2…"));
//   AM_RETURN_IF_ERROR(Require(who, Role::kSubmitter));
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace am::controller {

enum class Role { kViewer, kSubmitter, kAdmin };  // each may what those before it may

std::string_view Name(Role role);
std::optional<Role> ParseRole(std::string_view name);

struct Identity {
  std::string name;
  Role role = Role::kViewer;
};

// PermissionDenied that names what is missing.
absl::Status Require(const Identity& who, Role role);

class TokenFile {
 public:
  // PermissionDenied where others than the owner may read the file; InvalidArgument names the line
  // that is wrong.
  static absl::StatusOr<TokenFile> Load(const std::string& path);
  static absl::StatusOr<TokenFile> Parse(std::string_view text, const std::string& path);

  // Of the header `authorization`; Unauthenticated where it is missing, of another kind or unknown.
  absl::StatusOr<Identity> Identify(std::string_view authorization) const;

 private:
  std::map<std::string, Identity> by_hash_;
};

// Makes a token of 256 random bits, adds its hash to the file (made with mode 0600 where there is
// none) and returns the token, which is nowhere else.
absl::StatusOr<std::string> AddToken(const std::string& path, const Identity& who);

// In hexadecimal.
std::string Sha256(std::string_view bytes);

// Of the user that this process runs as; its number where it has no name.
std::string UserName();

}  // namespace am::controller
