#include "launcher/recipe/load.h"

#include <absl/strings/str_cat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/recipe/bind.h"
#include "launcher/recipe/document.h"
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
std::optional<Node> ReadRoot(const LoadOptions& options, Diagnostics& out) {
  std::optional<std::string> text = options.text ? options.text : ReadText(options.path, out);
  if (!text) return std::nullopt;
  std::optional<Node> root = ParseDocument(*text, options.path, out);
  if (!root) return std::nullopt;
  if (root->IsPlainNull()) {
    Refuse(out, Place{options.path}, "the recipe is empty", "see configs/recipes for examples");
    return std::nullopt;
  }
  if (root->kind != Node::Kind::kMap) {
    Refuse(out, root->place, "a recipe is a map of sections",
           "begin with `recipe: TrainFinetuneRecipeForNextTokenPrediction`");
    return std::nullopt;
  }
  for (const Override& override : options.overrides) ApplyOverride(override, *root, out);
  return root;
}

// Keys of which one is needed whatever the rest says.
void RequireSections(const Recipe& recipe, Diagnostics& out) {
  auto require = [&](std::string_view key, const char* hint) {
    if (!recipe.Has(key)) recipe.Error(out, key, "missing", hint);
  };
  require("model", "add model: {pretrained_model_name_or_path: …}");
  require("dataset", "add dataset: {_target_: …make_squad_dataset, dataset_name: …}");
  if (recipe.Has("model") && recipe.Part("model") == "from_pretrained") {
    require("model.pretrained_model_name_or_path", "name a model directory or a hub id");
  }
  if (recipe.Has("model") && recipe.Part("model") == "from_config") {
    require("model.config", "name a directory or hub id with a config.json");
  }
}

// Rules between the keys of a section, which need no cluster.

void CheckPeft(const Recipe& recipe, Diagnostics& out) {
  if (!recipe.Has("peft") || recipe.Part("peft") != "lora") return;
  bool targets = !recipe.Strings("peft.target_modules").empty();
  bool excludes = !recipe.Strings("peft.exclude_modules").empty();
  if (targets && excludes) {
    recipe.Error(out, "peft.exclude_modules", "cannot be given together with target_modules",
                 "keep one of the two");
  }
  if (recipe.Bool("peft.match_all_linear") && (targets || excludes)) {
    recipe.Error(out, "peft.match_all_linear",
                 "cannot be given together with target_modules or exclude_modules",
                 "keep one of them");
  }
}

void CheckOptimizer(const Recipe& recipe, Diagnostics& out) {
  if (!recipe.Has("optimizer")) return;
  if (recipe.Has("optimizer.betas")) {
    std::vector<double> betas = recipe.Floats("optimizer.betas");
    bool legal = betas.size() == 2;
    for (double beta : betas) legal = legal && beta >= 0 && beta < 1;
    if (!legal) {
      recipe.Error(out, "optimizer.betas", "expected two numbers from 0 to below 1",
                   "write [0.9, 0.999]");
    }
  }
  if (recipe.Part("optimizer") == "sgd" && recipe.Bool("optimizer.nesterov") &&
      (recipe.Float("optimizer.momentum") <= 0 || recipe.Float("optimizer.dampening") != 0)) {
    recipe.Error(out, "optimizer.nesterov", "needs momentum above 0 and dampening 0",
                 "set optimizer.momentum, or nesterov: false");
  }
}

void CheckLrScheduler(const Recipe& recipe, Diagnostics& out) {
  if (!recipe.Has("lr_scheduler")) return;
  if (recipe.String("lr_scheduler.lr_decay_style") == "WSD" &&
      !recipe.Has("lr_scheduler.wsd_decay_steps")) {
    recipe.Error(out, "lr_scheduler.lr_decay_style", "WSD needs wsd_decay_steps",
                 "set lr_scheduler.wsd_decay_steps");
  }
  double lr = recipe.Has("optimizer") ? recipe.Float("optimizer.lr") : 1e-5;
  double most = recipe.OptFloat("lr_scheduler.max_lr").value_or(lr);
  for (const char* key : {"lr_scheduler.init_lr", "lr_scheduler.min_lr"}) {
    std::optional<double> value = recipe.OptFloat(key);
    if (!value || *value <= most) continue;
    bool given = recipe.Has("lr_scheduler.max_lr");
    recipe.Error(
        out, key,
        absl::StrCat(*value, " is above ", given ? "max_lr " : "the optimizer's lr ", most),
        "lower it, or raise max_lr");
  }
  std::optional<int64_t> warmup = recipe.OptInt("lr_scheduler.lr_warmup_steps");
  std::optional<int64_t> decay = recipe.OptInt("lr_scheduler.lr_decay_steps");
  if (warmup && decay && *warmup >= *decay) {
    recipe.Error(out, "lr_scheduler.lr_warmup_steps",
                 absl::StrCat(*warmup, " is not below lr_decay_steps ", *decay), "lower it");
  }
}

// The kind of the recipe; where it is not named, by the sections that only one kind has.
const Part* KindOf(const Node& root) {
  const NodeEntry* given = root.Find("recipe");
  if (given && !given->value.IsPlainNull()) {
    const NodeEntry* target = given->value.Find("_target_");
    return FindPart(kRecipeKindSection, target ? target->value.text : given->value.text);
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

std::optional<Recipe> Read(const LoadOptions& options, Diagnostics& out) {
  std::optional<Node> root = ReadRoot(options, out);
  if (!root) return std::nullopt;
  const Part* kind = KindOf(*root);
  bool trainable = kind && kind->support == Support::kHonoured;
  Binding bound = Bind(kRecipeSchema, *root, "",
                       {.environment = options.environment,
                        .unset_variable = options.unset_variable,
                        .implied_parts = kind && !trainable});
  out.insert(out.end(), bound.diagnostics.begin(), bound.diagnostics.end());
  Recipe recipe(options.path, std::move(bound.value), kind ? std::string(kind->name) : "");
  if (kind && !recipe.Has("recipe")) {
    recipe.Report(out, trainable ? Severity::kWarning : options.not_trainable, "recipe",
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
  Say(bound.not_trainable, options.not_trainable, "is understood, but not trainable yet", out);
  Say(bound.ignored, Severity::kWarning, "is understood and ignored", out);
  if (trainable && !HasErrors(out)) {
    RequireSections(recipe, out);
    CheckPeft(recipe, out);
    CheckOptimizer(recipe, out);
    CheckLrScheduler(recipe, out);
  }
  return recipe;
}

}  // namespace

LoadResult LoadRecipe(const LoadOptions& options) {
  LoadResult result;
  result.recipe = Read(options, result.diagnostics);
  if (options.strict) TurnWarningsIntoErrors(result.diagnostics);
  if (HasErrors(result.diagnostics)) result.recipe.reset();
  return result;
}

}  // namespace am::recipe
