#include "launcher/cli/context.h"

#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "launcher/recipe/document.h"

namespace am::cli {
namespace {

struct ConfigFile {
  std::string server;
  std::string token_file;
};

// `~/…` is below the home directory.
std::string Expanded(const std::string& path) {
  return path.starts_with("~/") ? Getenv("HOME") + path.substr(1) : path;
}

absl::StatusOr<ConfigFile> ReadConfigFile() {
  std::string folder = Getenv("XDG_CONFIG_HOME");
  if (folder.empty()) folder = Getenv("HOME") + "/.config";
  std::string path = folder + "/amctl/config.yaml";
  if (access(path.c_str(), F_OK) != 0) return ConfigFile{};
  AM_ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  recipe::Diagnostics diagnostics;
  std::optional<recipe::Node> root = recipe::ParseDocument(text, path, diagnostics);
  ConfigFile config;
  if (root && !root->IsPlainNull()) {
    for (const recipe::NodeEntry& entry : root->entries) {
      std::string* value = entry.key == "server"       ? &config.server
                           : entry.key == "token_file" ? &config.token_file
                                                       : nullptr;
      if (value != nullptr && entry.value.kind == recipe::Node::Kind::kScalar) {
        *value = entry.value.text;
      } else {
        diagnostics.push_back({.place = entry.place,
                               .key = entry.key,
                               .message = "this file has the keys server and token_file"});
      }
    }
  }
  if (recipe::HasErrors(diagnostics)) {
    return absl::InvalidArgumentError(absl::StripSuffix(recipe::RenderText(diagnostics), "\n"));
  }
  return config;
}

std::string StandardSocket() {
  std::string runtime = Getenv("XDG_RUNTIME_DIR");
  return absl::StrCat("unix:", runtime.empty() ? "/run" : runtime, "/amctl/controller.sock");
}

std::string FirstOf(std::initializer_list<std::string> choices) {
  for (const std::string& choice : choices) {
    if (!choice.empty()) return choice;
  }
  return "";
}

}  // namespace

absl::StatusOr<ServerContext> FindServer(const Words& words) {
  AM_ASSIGN_OR_RETURN(ConfigFile config, ReadConfigFile());
  ServerContext context{.server =
                            FirstOf({words.Value("server").value_or(""), Getenv("AMCTL_SERVER"),
                                     config.server, StandardSocket()})};
  std::string token_file = FirstOf({words.Value("token-file").value_or(""),
                                    Getenv("AMCTL_TOKEN_FILE"), Expanded(config.token_file)});
  if (!token_file.empty()) {
    AM_ASSIGN_OR_RETURN(std::string text, ReadFile(token_file));
    context.token = std::string(absl::StripAsciiWhitespace(text));
  }
  return context;
}

}  // namespace am::cli
