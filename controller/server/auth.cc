#include "controller/server/auth.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/file.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"

namespace am::controller {
namespace {

constexpr std::array<std::string_view, 3> kRoles = {"viewer", "submitter", "admin"};
constexpr int kTokenLength = 52;  // of five random bits each

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

absl::Status CheckName(const std::string& name) {
  bool fine = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '@';
  });
  if (fine) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "': expected a name of letters, digits, and - _ . @"));
}

}  // namespace

std::string_view Name(Role role) { return kRoles[static_cast<size_t>(role)]; }

std::optional<Role> ParseRole(std::string_view name) {
  for (size_t i = 0; i < kRoles.size(); ++i) {
    if (kRoles[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

absl::Status Require(const Identity& who, Role role) {
  if (who.role >= role) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(who.name, " is ", Abseil(Name(who.role)), "; this takes ", Abseil(Name(role))));
}

absl::StatusOr<TokenFile> TokenFile::Load(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return ErrnoStatus(errno, "cannot read the tokens in " + path);
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": others than its owner may read or write it; chmod 600 ", path));
  }
  AM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  return Parse(text, path);
}

absl::StatusOr<TokenFile> TokenFile::Parse(std::string_view text, const std::string& path) {
  TokenFile file;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(Abseil(text), '\n')) {
    ++number;
    std::vector<std::string> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty() || fields[0][0] == '#') continue;
    auto wrong = [&](auto... parts) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": error: ", parts...));
    };
    if (fields.size() != 3)
      return wrong("expected NAME ROLE SHA256, got ", fields.size(), " words");
    std::optional<Role> role = ParseRole(fields[1]);
    if (!role) return wrong(fields[1], ": expected viewer, submitter or admin");
    bool hash =
        fields[2].size() == 2 * SHA256_DIGEST_LENGTH &&
        std::ranges::all_of(fields[2], [](unsigned char c) { return absl::ascii_isxdigit(c); });
    if (!hash) return wrong("expected a SHA-256 of 64 hexadecimal digits");
    file.by_hash_[absl::AsciiStrToLower(fields[2])] = {fields[0], *role};
  }
  return file;
}

absl::StatusOr<Identity> TokenFile::Identify(std::string_view authorization) const {
  constexpr std::string_view kBearer = "bearer ";
  if (authorization.empty()) {
    return absl::UnauthenticatedError("no credential was given; bring a token (--token-file)");
  }
  if (absl::AsciiStrToLower(Abseil(authorization.substr(0, kBearer.size()))) != kBearer) {
    return absl::UnauthenticatedError("the credential is no bearer token");
  }
  // Looked up by hash: how long it takes says nothing about the tokens.
  auto found = by_hash_.find(Sha256(authorization.substr(kBearer.size())));
  if (found == by_hash_.end()) return absl::UnauthenticatedError("the token is not known here");
  return found->second;
}

absl::StatusOr<std::string> AddToken(const std::string& path, const Identity& who) {
  AM_RETURN_IF_ERROR(CheckName(who.name));
  if (access(path.c_str(), F_OK) == 0) AM_RETURN_IF_ERROR(TokenFile::Load(path).status());
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot write " + path);
  std::string token = RandomBase32(kTokenLength);
  AM_RETURN_IF_ERROR(WriteAll(
      fd.get(), absl::StrCat(who.name, " ", Abseil(Name(who.role)), " ", Sha256(token), "\n")));
  return token;
}

std::string Sha256(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string UserName() {
  passwd entry;
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr) {
    return found->pw_name;
  }
  return absl::StrCat(geteuid());
}

}  // namespace am::controller
