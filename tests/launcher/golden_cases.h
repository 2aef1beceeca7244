// Cases as files: NAME.yaml is a recipe, NAME.expected the diagnostics that it gives, word for
// word. The first lines of the recipe may say how it is read:
//   #! overrides: --distributed.tp_size=3 --peft-
//   #! run            what is not trainable and unset variables are errors, as in `amctl run`
//   #! strict
//   #! environment: NAME=value …
//   #! machines: dgx-h100 2 8      cluster, nodes, ranks a node (for cases of the plan)
// AMCTL_UPDATE_EXPECTED=1 writes the files anew; read the diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/recipe/load.h"

namespace am::testing {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::filesystem::path SourceDirectory() {
  const char* directory = std::getenv("AMCTL_SOURCE_DIR");
  return directory ? directory : ".";
}

// The shared test data beside the checkout, or an empty path where there is none.
inline std::filesystem::path SharedData() {
  const char* given = std::getenv("AMCTL_TEST_DATA");
  std::filesystem::path path = given ? given : SourceDirectory() / ".." / "shared";
  return std::filesystem::is_directory(path) ? path : std::filesystem::path();
}

struct GoldenCase {
  std::filesystem::path path;
  std::string text;
  std::map<std::string, std::string> settings;
  recipe::LoadOptions options;

  std::string name() const { return path.filename().string(); }
};

inline std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

inline GoldenCase ReadCase(const std::filesystem::path& path) {
  GoldenCase result{.path = path, .text = ReadFile(path)};
  std::istringstream lines(result.text);
  for (std::string line; std::getline(lines, line) && line.starts_with("#! ");) {
    size_t colon = line.find(": ");
    std::string name = line.substr(3, colon == std::string::npos ? colon : colon - 3);
    result.settings[name] = colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  recipe::LoadOptions& options = result.options;
  options.path = result.name();
  options.text = result.text;
  options.strict = result.settings.contains("strict");
  if (result.settings.contains("run")) {
    options.unset_variable = options.not_trainable = recipe::Severity::kError;
  }
  auto overrides = recipe::ParseOverrides(Words(result.settings["overrides"]));
  EXPECT_TRUE(overrides.ok()) << overrides.status();
  if (overrides.ok()) options.overrides = *overrides;
  std::map<std::string, std::string> variables;
  for (const std::string& word : Words(result.settings["environment"])) {
    size_t equals = word.find('=');
    variables[word.substr(0, equals)] = word.substr(equals + 1);
  }
  options.environment = [variables](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  return result;
}

inline std::vector<GoldenCase> ReadCases(const std::string& folder) {
  std::vector<GoldenCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDirectory() / folder)) {
    if (entry.path().extension() == ".yaml") cases.push_back(ReadCase(entry.path()));
  }
  return cases;
}

inline void ExpectDiagnostics(const GoldenCase& golden, const recipe::Diagnostics& diagnostics) {
  std::string got = recipe::RenderText(diagnostics, {.least = recipe::Severity::kInfo});
  std::filesystem::path expected = golden.path;
  expected.replace_extension(".expected");
  if (std::getenv("AMCTL_UPDATE_EXPECTED")) {
    std::ofstream(expected, std::ios::binary) << got;
  }
  EXPECT_EQ(got, ReadFile(expected)) << golden.name();
}

}  // namespace am::testing
