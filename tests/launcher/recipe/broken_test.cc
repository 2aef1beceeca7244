// Broken recipes, and word for word what `amctl validate` says of them: broken/KIND.cases.
//
// A file is a kind of mistake. A case in it is
//   #### name_of_the_case
//   $ NAME=value … amctl validate recipe.yaml --an.override=3
//   the recipe: BASE stands for the six lines of kBase, <TAB>, <CR>, <NUL>, <BOM>, <FF> and <NBSP>
//   for bytes
//   ==>
//   what the command writes to its standard error
//   exit 2
// AMCTL_UPDATE_EXPECTED=1 writes the files anew; read the diff.
#include <filesystem>
#include <iostream>
#include <set>
#include <sstream>

#include "launcher/cli/command.h"
#include "tests/launcher/golden_cases.h"

namespace am::cli {
namespace {

constexpr std::string_view kBase = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
dataset:
  _target_: nemo_automodel.components.datasets.llm.squad.make_squad_dataset
  dataset_name: rajpurkar/squad
)";

struct BrokenRecipe {
  std::string name;
  std::string command;
  std::string text;      // as it stands in the file
  std::string expected;  // with the line of the exit status
};

struct Kind {
  std::filesystem::path path;
  std::string head;  // what the kind is
  std::vector<BrokenRecipe> recipes;
};

Kind ReadKind(const std::filesystem::path& path) {
  Kind kind{.path = path};
  std::istringstream lines(testing::ReadFile(path));
  std::string* into = &kind.head;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#### ")) {
      kind.recipes.push_back({.name = line.substr(5)});
      into = &kind.recipes.back().text;
    } else if (line.starts_with("$ ") && into == &kind.recipes.back().text && into->empty()) {
      kind.recipes.back().command = line.substr(2);
    } else if (line == "==>" && !kind.recipes.empty()) {
      into = &kind.recipes.back().expected;
    } else if (!(line.empty() && into != &kind.head && into != &kind.recipes.back().text)) {
      *into += line + "\n";
    }
  }
  return kind;
}

std::string Written(const Kind& kind) {
  std::string text = kind.head;
  for (const BrokenRecipe& recipe : kind.recipes) {
    text += "#### " + recipe.name + "\n$ " + recipe.command + "\n" + recipe.text + "==>\n" +
            recipe.expected + "\n";
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

std::string Bytes(std::string text) {
  const std::pair<std::string_view, std::string> kNames[] = {{"BASE\n", std::string(kBase)},
                                                             {"<TAB>", "\t"},
                                                             {"<CR>", "\r"},
                                                             {"<NUL>", std::string(1, 0)},
                                                             {"<BOM>", "\xEF\xBB\xBF"},
                                                             {"<FF>", "\xFF"},
                                                             {"<NBSP>", "\u00A0"}};
  for (const auto& [name, bytes] : kNames) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += bytes.size()) {
      text.replace(at, name.size(), bytes);
    }
  }
  return text;
}

// Words as a shell cuts them, for single quotes.
std::vector<std::string> ShellWords(const std::string& command) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (char c : command) {
    if (c == '\'') {
      quoted = !quoted;
      if (!open) words.emplace_back(), open = true;
    } else if (c == ' ' && !quoted) {
      open = false;
    } else {
      if (!open) words.emplace_back(), open = true;
      words.back() += c;
    }
  }
  return words;
}

// What the command says of the recipe, and its exit status.
std::string Said(const BrokenRecipe& recipe) {
  std::ofstream("recipe.yaml", std::ios::binary) << Bytes(recipe.text);
  std::vector<std::string> words = ShellWords(recipe.command);
  std::vector<std::string> variables;
  while (!words.empty() && words[0] != "amctl") {
    size_t equals = words[0].find('=');
    variables.push_back(words[0].substr(0, equals));
    setenv(variables.back().c_str(), words[0].substr(equals + 1).c_str(), 1);
    words.erase(words.begin());
  }
  std::string command = words.at(1);
  words.erase(words.begin(), words.begin() + 2);
  std::ostringstream out, err;
  CommandContext context{.args = words, .in = std::cin, .out = out, .err = err};
  int status = (command == "plan" ? kPlanCommand : kValidateCommand).run(context);
  for (const std::string& name : variables) unsetenv(name.c_str());
  std::string shown = context.args.back() == "--json" ? out.str() : err.str();
  return shown + "exit " + std::to_string(status) + "\n";
}

class BrokenRecipes : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::path folder =
        std::filesystem::absolute(testing::SourceDirectory() / "tests/launcher/recipe/broken");
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".cases") kinds_.push_back(ReadKind(entry.path()));
    }
    before_ = std::filesystem::current_path();
    scratch_ = std::filesystem::path(::testing::TempDir()) / ("broken-" + std::to_string(getpid()));
    std::filesystem::create_directories(scratch_);
    std::filesystem::current_path(scratch_);
    // No model that this machine happens to have.
    setenv("HF_HOME", scratch_.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(scratch_);
  }

  std::vector<Kind> kinds_;
  std::filesystem::path before_, scratch_;
};

TEST_F(BrokenRecipes, AreToldWhatIsWrongAndWhereWordForWord) {
  bool update = std::getenv("AMCTL_UPDATE_EXPECTED") != nullptr;
  size_t count = 0;
  for (Kind& kind : kinds_) {
    std::set<std::string> names;
    for (BrokenRecipe& recipe : kind.recipes) {
      EXPECT_TRUE(names.insert(recipe.name).second) << kind.path << ": twice " << recipe.name;
      std::string got = Said(recipe);
      EXPECT_EQ(got.find("SWORDFISH"), std::string::npos) << "a secret is shown: " << got;
      EXPECT_EQ(got, recipe.expected) << kind.path.filename() << ": " << recipe.name;
      recipe.expected = got;
      ++count;
    }
    if (update) std::ofstream(kind.path, std::ios::binary) << Written(kind);
  }
  EXPECT_GE(kinds_.size(), 25u);
  EXPECT_GE(count, 150u);
}

}  // namespace
}  // namespace am::cli
