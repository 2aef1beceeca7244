// The schema knows what public recipes write: every key of 511 recipes and every Python name in
// them, declared with a type, not merely let through. Their lists are shared data: absent, the
// tests skip.
#include <cctype>
#include <set>

#include "launcher/recipe/schema.h"
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

struct Exception {
  std::string_view begins;
  std::string_view reason;
};
constexpr Exception kExceptions[] = {
    {"ci.", "read by the tests of another program alone; left alone here, whatever it holds"},
    {"_", "names that begin so are the user's own"},
};

bool IsExcepted(std::string_view key) {
  for (const Exception& exception : kExceptions) {
    if (key.starts_with(exception.begins)) return true;
  }
  return false;
}

std::vector<std::vector<std::string>> ReadTable(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(testing::ReadFile(testing::SharedData() / "spec" / name));
  std::string line;
  std::getline(lines, line);  // the head
  while (std::getline(lines, line)) {
    rows.emplace_back();
    for (std::string_view cell : Split(line, '\t')) rows.back().emplace_back(cell);
  }
  return rows;
}

TEST(SchemaCoverage, DeclaresEveryKeyOfThePublicRecipes) {
  auto rows = ReadTable("recipe_keys.tsv");
  if (rows.empty()) GTEST_SKIP() << "no recipe_keys.tsv";
  size_t declared = 0, excepted = 0;
  for (const auto& row : rows) {
    const std::string& key = row.at(0);
    if (IsExcepted(key)) {
      ++excepted;
      continue;
    }
    EXPECT_FALSE(FindDeclarations(key).empty()) << key << ": " << row.at(2).substr(0, 80);
    ++declared;
  }
  EXPECT_GT(declared, 900u);
  RecordProperty("declared", std::to_string(declared));
  RecordProperty("excepted", std::to_string(excepted));
}

TEST(SchemaCoverage, KnowsEveryTargetWhereItIsUsed) {
  auto rows = ReadTable("targets.tsv");
  if (rows.empty()) GTEST_SKIP() << "no targets.tsv";
  for (const auto& row : rows) {
    for (std::string_view use : Split(row.at(3), ',')) {
      while (use.starts_with(' ')) use.remove_prefix(1);
      std::string_view path = use.substr(0, use.rfind(':'));
      if (IsExcepted(path)) continue;
      bool known = false;
      for (const auto& [key, part, support] : FindDeclarations(path)) {
        if (!key->section) continue;
        // Where there are no parts, `_target_` is declared as what is not read.
        known = known ||
                (HasParts(*key->section) ? FindPart(*key->section, row[0]) != nullptr
                                         : FindKey(*key->section, nullptr, "_target_") != nullptr);
      }
      EXPECT_TRUE(known) << path << ": " << row[0];
    }
  }
}

// Fields of real config.json files may be laid over them in `model`; none is taken for a typo of
// another.
TEST(SchemaCoverage, NoFieldOfARealModelLooksLikeATypo) {
  std::filesystem::path folder = testing::SharedData() / "models";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no models";
  std::set<std::string> fields;
  for (const auto& model : std::filesystem::directory_iterator(folder)) {
    nlohmann::json config = nlohmann::json::parse(testing::ReadFile(model.path() / "config.json"),
                                                  nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) continue;
    for (const auto& [name, value] : config.items()) fields.insert(name);
    if (!config.contains("text_config")) continue;
    for (const auto& [name, value] : config["text_config"].items()) fields.insert(name);
  }
  EXPECT_GT(fields.size(), 100u);
  for (const std::string& field : fields) {
    std::string text =
        "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
        "model: {pretrained_model_name_or_path: m, " +
        field +
        ": null}\n"
        "dataset: {_target_: make_squad_dataset, dataset_name: d}\n";
    LoadResult result = LoadRecipe({.path = "r.yaml", .text = text});
    EXPECT_TRUE(result.recipe) << RenderText(result.diagnostics);
  }
}

}  // namespace
}  // namespace am::recipe
