#include "launcher/recipe/load.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/recipe/bind.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/rules.h"
#include "launcher/recipe/schema_sections.h"

namespace am::recipe {
namespace {

void Refuse(Diagnostics& out, const Place& place, std::string message, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.place = place;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  out.push_back(std::move(diagnostic));
}

std::optional<std::string> ReadText(const std::string& path, Diagnostics& out) {
  std::error_code error;
  auto type = std::filesystem::status(path, error).type();
  const char* message = nullptr;
  if (type == std::filesystem::file_type::not_found) {
    message = "no such file";
  } else if (type == std::filesystem::file_type::directory) {
    message = "is a directory, not a recipe";
  }
  std::ifstream file(path, std::ios::binary);
  if (!message && !file) message = "cannot be read: permission denied";
  if (message) {
    Refuse(out, Place{path}, message, "name the YAML file of a recipe");
    return std::nullopt;
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The map of sections, overrides laid over it.
std::optional<Document> ReadRoot(const LoadOptions& options, Diagnostics& out) {
  std::optional<std::string> text = options.text ? options.text : ReadText(options.path, out);
  if (!text) return std::nullopt;
  Document document = ReadDocument(*text, options.path, out);
  std::optional<Node>& root = document.root;
  if (!root) return std::nullopt;
  if (root->kind != Node::Kind::kMap) {
    if (document.ended) return std::nullopt;
    if (root->IsPlainNull()) {
      Refuse(out, Place{options.path}, "the recipe is empty", "see configs/recipes for examples");
    } else {
      Refuse(out, root->place, "a recipe is a map of sections",
             "begin with `recipe: TrainFinetuneRecipeForNextTokenPrediction`");
    }
    return std::nullopt;
  }
  for (const Override& override : options.overrides) ApplyOverride(override, *root, out);
  return document;
}

// The kind of the recipe; where it is not named, by the sections that only one kind has.
const Part* KindOf(const Node& root) {
  const NodeEntry* given = root.Find("recipe");
  if (given && !given->value.IsPlainNull()) {
    const NodeEntry* target = given->value.Find("_target_");
    const std::string& name = target ? target->value.text : given->value.text;
    const Part* kind = FindPart(kRecipeKindSection, name);
    // Of a misspelt one the rest is checked as if it were spelt right.
    return kind ? kind : NearestPart(kRecipeKindSection, name);
  }
  constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"flow_matching", "diffusion"}, {"inference", "diffusion"}, {"vae", "diffusion"},
      {"recipe_args", "draft"},       {"datasets", "draft"},      {"processor", "multimodal"}};
  for (auto [section, kind] : kMarks) {
    if (root.Find(section)) return FindPart(kRecipeKindSection, kind);
  }
  return FindPart(kRecipeKindSection, kRecipeKindSection.default_part);
}

// What the binder noted, with the severity and the words for it.
void Say(Diagnostics notes, Severity severity, std::string_view what, Diagnostics& out) {
  for (Diagnostic& note : notes) {
    note.severity = severity;
    if (!note.message.empty()) note.message += " ";
    note.message += what;
    out.push_back(std::move(note));
  }
}

// `optimizer:` with nothing below it, perhaps because its lines are commented out or not indented.
void NoteEmptySections(const Value& root, const std::vector<std::string>& misplaced,
                       Diagnostics& out) {
  for (const Entry& entry : *root.map()) {
    const Value& value = entry.value;
    bool empty = value.is_null() && value.text.empty() && !value.quoted && !value.broken;
    if (!empty || entry.place.line == 0 || entry.key == "model" || entry.key == "dataset") continue;
    // Whose keys stand elsewhere is known already.
    if (std::find(misplaced.begin(), misplaced.end(), entry.key) != misplaced.end()) continue;
    const Key* key = FindKey(kRecipeSchema, nullptr, entry.key);
    if (!key || !key->section) continue;
    out.push_back({.severity = Severity::kWarning,
                   .place = entry.place,
                   .key = entry.key,
                   .message = "the section is empty at " + std::to_string(entry.place.line) + ":" +
                              std::to_string(entry.place.column) +
                              " and counts as if it were not there",
                   .hint = "indent its keys below it, or write " + entry.key + ": null"});
  }
}

std::optional<Recipe> Read(const LoadOptions& options, Diagnostics& out) {
  std::optional<Document> document = ReadRoot(options, out);
  if (!document) return std::nullopt;
  const Node& root = *document->root;
  const Part* kind = KindOf(root);
  bool trainable = kind && kind->support == Support::kHonoured;
  Binding bound = Bind(kRecipeSchema, root, "",
                       {.environment = options.environment,
                        .unset_variable = options.unset_variable,
                        .implied_parts = kind && !trainable});
  Recipe recipe(options.path, std::move(bound.value), kind ? std::string(kind->name) : "");
  Diagnostics found = std::move(bound.diagnostics);
  // After a syntax error what is absent may only have been misread.
  bool whole = document->refused_lines.empty();
  if (kind && !recipe.Has("recipe") && !IsBroken(recipe.root(), "recipe") && whole) {
    recipe.Report(found, trainable ? Severity::kWarning : options.not_trainable, "recipe",
                  "missing; the sections are those of the kind " + std::string(kind->name) +
                      (trainable ? "" : ", which is understood, but not trainable yet"),
                  "add recipe: TrainFinetuneRecipeForNextTokenPrediction");
  }
  if (!trainable) {
    // Of another kind of recipe this is said once, at `recipe`.
    bound.ignored.clear();
    std::erase_if(bound.not_trainable, [](const Diagnostic& note) {
      return note.key != "recipe" && note.key != "recipe._target_";
    });
  }
  Say(bound.not_trainable, options.not_trainable, "is understood, but not trainable yet", found);
  Say(bound.ignored, Severity::kWarning, "is understood and ignored", found);
  NoteEmptySections(recipe.root(), bound.misplaced, found);
  CheckRules(recipe, {.whole = whole, .trainable = trainable}, found);
  for (Diagnostic& diagnostic : found) {
    if (!document->Doubts(diagnostic.place)) out.push_back(std::move(diagnostic));
  }
  return recipe;
}

}  // namespace

LoadResult LoadRecipe(const LoadOptions& options) {
  LoadResult result;
  result.readable = Read(options, result.diagnostics);
  if (options.strict) TurnWarningsIntoErrors(result.diagnostics);
  if (!HasErrors(result.diagnostics)) result.recipe = result.readable;
  return result;
}

}  // namespace am::recipe
