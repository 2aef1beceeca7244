#include "controller/server/auth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

using testing::HasSubstr;

constexpr char kHashOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

std::string Line(std::string_view role) { return "ada " + std::string(role) + " " + kHashOfAbc; }

TEST(Sha256, IsThatOfTheStandard) { EXPECT_EQ(Sha256("abc"), kHashOfAbc); }

TEST(Tokens, NameTheirBearerAndItsRole) {
  absl::StatusOr<TokenFile> tokens =
      TokenFile::Parse("# who may\n\n" + Line("submitter"), "tokens");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  absl::StatusOr<Identity> who = tokens->Identify("Bearer abc");
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(who->name, "ada");
  EXPECT_EQ(who->role, Role::kSubmitter);
  EXPECT_TRUE(tokens->Identify("bearer abc").ok()) << "the scheme has no case";
}

TEST(Tokens, ThatAreUnknownOrMissingAreUnauthenticated) {
  TokenFile tokens = *TokenFile::Parse(Line("admin"), "tokens");
  for (const char* authorization :
       {"", "abc", "Bearer", "Bearer ", "Bearer abd", "Basic abc", "Bearer abc "}) {
    EXPECT_EQ(tokens.Identify(authorization).status().code(), absl::StatusCode::kUnauthenticated)
        << authorization;
  }
}

TEST(Tokens, OfAFaultyLineAreRefusedWithItsNumber) {
  for (const auto& [text, said] :
       {std::pair<std::string, const char*>{"ada admin", "t:1: error: expected NAME ROLE SHA256"},
        {"# x\nada root " + std::string(kHashOfAbc), "t:2: error: root: expected viewer"},
        {"ada admin 12", "t:1: error: expected a SHA-256"}}) {
    EXPECT_THAT(TokenFile::Parse(text, "t").status().message(), HasSubstr(said));
  }
}

TEST(Roles, MayWhatTheLesserOnesMay) {
  EXPECT_TRUE(Require({"ada", Role::kAdmin}, Role::kViewer).ok());
  EXPECT_TRUE(Require({"ada", Role::kSubmitter}, Role::kSubmitter).ok());
  absl::Status refused = Require({"ada", Role::kViewer}, Role::kSubmitter);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(), "ada is viewer; this takes submitter");
}

TEST(Tokens, ThatAreAddedAreKnownByTheirHashAlone) {
  TemporaryFolder folder;
  std::string path = folder / "tokens";
  absl::StatusOr<std::string> token = AddToken(path, {"ada", Role::kViewer});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->size(), 52u) << "at least 256 bits";
  EXPECT_EQ(ReadFile(path)->find(*token), std::string::npos);
  EXPECT_EQ(TokenFile::Load(path)->Identify("Bearer " + *token)->name, "ada");
  ASSERT_TRUE(AddToken(path, {"bob", Role::kAdmin}).ok());
  EXPECT_TRUE(TokenFile::Load(path)->Identify("Bearer " + *token).ok()) << "others stay";
  EXPECT_FALSE(AddToken(path, {"bob\nmallory", Role::kAdmin}).ok());
}

TEST(Tokens, OfAFileThatOthersMayReadAreRefused) {
  TemporaryFolder folder;
  std::string path = folder / "tokens";
  ASSERT_TRUE(WriteFile(path, Line("admin"), 0600).ok());
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  absl::Status refused = TokenFile::Load(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("chmod 600"));
}

}  // namespace
}  // namespace am::controller
