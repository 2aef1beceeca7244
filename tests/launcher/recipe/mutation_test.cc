// Every public recipe, broken in one place by chance: the mistake is found, at its line, and a
// misspelt key is told how it is spelt. The chance is seeded, so a failure can be looked at again:
// AMCTL_SHOW_MUTATIONS=1 prints what was not as it should be.
#include <iostream>
#include <random>

#include "launcher/recipe/schema.h"
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

using Lines = std::vector<std::string>;

// A key of the schema, where it stands in the file.
struct Spot {
  std::string dotted;
  std::string name;
  int line = 0;
  int column = 0;
  const Key* key = nullptr;
  const Value* value = nullptr;
};

void Collect(const Value& root, const Map& map, const std::string& path, std::vector<Spot>& out) {
  for (const Entry& entry : map) {
    std::string dotted = path.empty() ? entry.key : path + "." + entry.key;
    const Key* key = FindKey(root, dotted);
    if (!key || key->name != entry.key) continue;
    out.push_back({dotted, entry.key, entry.place.line, entry.place.column, key, &entry.value});
    if (const Map* inner = entry.value.map()) Collect(root, *inner, dotted, out);
  }
}

struct Corpus {
  struct File {
    std::string path;
    Lines lines;
    Recipe recipe;
    std::vector<Spot> spots;
  };
  std::vector<File> files;
};

Lines Cut(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

const Corpus& TheCorpus() {
  static const Corpus corpus = [] {
    Corpus read;
    std::filesystem::path folder = testing::SharedData() / "corpus" / "recipes";
    if (!std::filesystem::is_directory(folder)) return read;
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      std::string text = testing::ReadFile(path);
      LoadResult loaded = LoadRecipe({.path = path.filename(), .text = text});
      if (!loaded.recipe) continue;
      read.files.push_back({path.filename(), Cut(text), *loaded.recipe, {}});
    }
    for (Corpus::File& file : read.files) {
      Collect(file.recipe.root(), *file.recipe.root().map(), "", file.spots);
      // Of anchors, the key stands elsewhere as well.
      std::erase_if(file.spots, [&](const Spot& spot) {
        const std::string& line = file.lines.at(static_cast<size_t>(spot.line - 1));
        return line.substr(static_cast<size_t>(spot.column - 1), spot.name.size() + 1) !=
               spot.name + ":";
      });
    }
    return read;
  }();
  return corpus;
}

struct Tally {
  int tried = 0, silent = 0, misplaced = 0, unhelpful = 0, noisy = 0;
};

// Loads the mutated file and holds what it is told against the line that was broken.
class Mutations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TheCorpus().files.empty()) GTEST_SKIP() << "no corpus";
  }

  size_t Below(size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(chance_);
  }

  // `near` lines off are right as well; `wanted` has to be in some hint.
  void Judge(const Corpus::File& file, const Lines& lines, int line, int near,
             const std::string& wanted = "") {
    LoadResult result = LoadRecipe({.path = file.path, .text = Joined(lines)});
    ++tally_.tried;
    bool placed = false, helpful = wanted.empty();
    int errors = 0;
    for (const Diagnostic& diagnostic : result.diagnostics) {
      if (diagnostic.severity != Severity::kError) continue;
      ++errors;
      placed = placed || std::abs(diagnostic.place.line - line) <= near;
      helpful = helpful || diagnostic.hint.find(wanted) != std::string::npos;
    }
    tally_.silent += errors == 0;
    tally_.misplaced += errors > 0 && !placed;
    tally_.unhelpful += placed && !helpful;
    tally_.noisy += errors > 1;
    bool show = errors != 1 || !placed || !helpful;
    if (!show || !std::getenv("AMCTL_SHOW_MUTATIONS")) return;
    std::cout << "== " << file.path << ":" << line << ": "
              << lines.at(static_cast<size_t>(line - 1)) << "\n"
              << RenderText(result.diagnostics, {.least = Severity::kError});
  }

  void Report(const char* what, int least = 300) {
    std::cout << what << ": " << tally_.tried << " mutations, " << tally_.silent << " silent, "
              << tally_.misplaced << " misplaced, " << tally_.unhelpful << " without the cure, "
              << tally_.noisy << " with more than one error\n";
    EXPECT_GT(tally_.tried, least);
    EXPECT_EQ(tally_.silent, 0);
    EXPECT_EQ(tally_.misplaced, 0);
    EXPECT_EQ(tally_.unhelpful, 0);
  }

  std::string Misspelt(const std::string& name) {
    std::string letters = "abcdefghijklmnopqrstuvwxyz_";
    std::string out = name;
    size_t at = Below(name.size());
    switch (Below(4)) {
      case 0:
        out.erase(at, 1);
        break;
      case 1:
        out.insert(at, 1, letters[Below(letters.size())]);
        break;
      case 2:
        out[at] = letters[Below(letters.size())];
        break;
      default:
        if (name.size() > 1) std::swap(out[at], out[at + 1 < name.size() ? at + 1 : at - 1]);
    }
    return out;
  }

  std::mt19937 chance_{20260801};
  Tally tally_;
};

TEST_F(Mutations, AMisspeltKeyIsToldHowItIsSpelt) {
  for (const Corpus::File& file : TheCorpus().files) {
    for (int i = 0; i < 5; ++i) {
      const Spot& spot = file.spots.at(Below(file.spots.size()));
      std::string name = Misspelt(spot.name);
      std::string parent = spot.dotted.substr(0, spot.dotted.size() - spot.name.size());
      // What became another known name, or one of the user's own, is no mistake.
      if (name == spot.name || name.size() < 2 || name.front() == '_' || name.front() == '-' ||
          FindKey(file.recipe.root(), parent + name)) {
        continue;
      }
      Lines lines = file.lines;
      lines[static_cast<size_t>(spot.line - 1)].replace(static_cast<size_t>(spot.column - 1),
                                                        spot.name.size(), name);
      Judge(file, lines, spot.line, 0, spot.name);
    }
  }
  Report("misspelt keys");
}

TEST_F(Mutations, ADuplicatedLineIsNamedWithBothPlaces) {
  for (const Corpus::File& file : TheCorpus().files) {
    const Spot& spot = file.spots.at(Below(file.spots.size()));
    if (spot.value->map() || spot.value->list() || spot.value->place.line != spot.line) continue;
    Lines lines = file.lines;
    std::string line = lines[static_cast<size_t>(spot.line - 1)];
    if (line.find('{') != std::string::npos || line.find('|') != std::string::npos) continue;
    lines.insert(lines.begin() + spot.line, line);
    Judge(file, lines, spot.line + 1, 0);
  }
  // Lines of lists, of texts over several lines and with braces are left out.
  Report("duplicated lines", 150);
}

TEST_F(Mutations, AMissingColonIsFoundBesideItsLine) {
  for (const Corpus::File& file : TheCorpus().files) {
    const Spot& spot = file.spots.at(Below(file.spots.size()));
    Lines lines = file.lines;
    std::string& line = lines[static_cast<size_t>(spot.line - 1)];
    if (line.find('{') != std::string::npos) continue;
    line.erase(static_cast<size_t>(spot.column - 1) + spot.name.size(), 1);
    Judge(file, lines, spot.line, 1);
  }
  Report("missing colons");
}

TEST_F(Mutations, AWordForANumberIsFoundAtItsLine) {
  for (const Corpus::File& file : TheCorpus().files) {
    std::vector<const Spot*> numbers;
    for (const Spot& spot : file.spots) {
      bool number = spot.key->type == Type::kInt || spot.key->type == Type::kFloat;
      if (number && !spot.value->is_null() && spot.value->place.line == spot.line) {
        numbers.push_back(&spot);
      }
    }
    if (numbers.empty()) continue;
    const Spot& spot = *numbers[Below(numbers.size())];
    Lines lines = file.lines;
    lines[static_cast<size_t>(spot.line - 1)].replace(
        static_cast<size_t>(spot.value->place.column - 1), spot.value->text.size(), "banana");
    Judge(file, lines, spot.line, 0);
  }
  Report("words for numbers");
}

TEST_F(Mutations, ATabInTheIndentationIsFoundAtItsLine) {
  for (const Corpus::File& file : TheCorpus().files) {
    std::vector<const Spot*> indented;
    for (const Spot& spot : file.spots) {
      const std::string& line = file.lines[static_cast<size_t>(spot.line - 1)];
      size_t content = line.find_first_not_of(' ');
      if (content > 0 && static_cast<size_t>(spot.column - 1) == content) {
        indented.push_back(&spot);
      }
    }
    if (indented.empty()) continue;
    const Spot& spot = *indented[Below(indented.size())];
    Lines lines = file.lines;
    lines[static_cast<size_t>(spot.line - 1)].replace(0, static_cast<size_t>(spot.column - 1),
                                                      "\t");
    Judge(file, lines, spot.line, 1);
  }
  Report("tabs");
}

}  // namespace
}  // namespace am::recipe
