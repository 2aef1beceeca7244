#include "worker/rank_io/make_inputs.h"

#include <absl/strings/str_cat.h>

#include <filesystem>

#include "common/file.h"
#include "launcher/recipe/suggest.h"

namespace am {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using recipe::Severity;

constexpr size_t kMaxTemplateBytes = 1 << 20;

bool HasFileEnding(const fs::path& directory, std::initializer_list<std::string_view> endings) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    for (std::string_view ending : endings) {
      if (std::string_view(name).ends_with(ending)) return true;
    }
  }
  return false;
}

std::string Reason(const absl::Status& status) { return std::string(status.message()); }

// The ids of the recipe that name a data set, in the order they are looked for.
std::string DataKey(const recipe::Recipe& recipe, const std::string& section) {
  std::string alias = section + ".path_or_dataset";
  return recipe.Has(alias) ? alias : section + ".dataset_name";
}

}  // namespace

InputFinder::InputFinder(const recipe::Recipe& recipe, std::string working_directory,
                         recipe::Environment environment, recipe::Diagnostics& out)
    : recipe_(recipe),
      working_directory_(std::move(working_directory)),
      environment_(std::move(environment)),
      out_(out) {}

std::string InputFinder::Absolute(const std::string& path) const {
  fs::path expanded = path;
  if (path == "~" || path.starts_with("~/")) {
    expanded = environment_("HOME").value_or("~") + path.substr(1);
  }
  if (expanded.is_relative()) {
    std::error_code error;
    fs::path base =
        working_directory_.empty() ? fs::current_path(error) : fs::path(working_directory_);
    expanded = base / expanded;
  }
  std::string normal = expanded.lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string InputFinder::Cache() const {
  std::optional<std::string> given = recipe_.OptString("model.cache_dir");
  return given ? Absolute(*given) : model::HuggingFaceCache(environment_);
}

std::optional<std::string> InputFinder::FindModelDirectory(const std::string& key,
                                                           const std::string& name) {
  std::string local = Absolute(name);
  std::string cure = absl::StrCat("--", key, "=/path/to/model");
  if (IsDirectory(local)) return local;
  if (Exists(local)) {
    recipe_.Error(out_, key, absl::StrCat(name, " is a file, not a model directory"),
                  "name the directory that holds config.json");
    return std::nullopt;
  }
  if (!model::CouldBeHubId(name)) {
    recipe_.Error(out_, key, absl::StrCat("no such directory: ", local),
                  absl::StrCat("use ", cure));
    return std::nullopt;
  }
  auto cached = model::FindHubDirectory(model::HubKind::kModel, name, Cache());
  if (cached.ok()) return *cached;
  recipe_.Error(out_, key, Reason(cached.status()),
                absl::StrCat("download the model there, or use ", cure));
  return std::nullopt;
}

void InputFinder::CheckOverrides(const json& overrides, const model::ModelConfig& config) {
  std::vector<std::string_view> known;
  for (auto it = config.json.begin(); it != config.json.end(); ++it) {
    if (!overrides.contains(it.key())) known.push_back(it.key());
  }
  for (auto it = overrides.begin(); it != overrides.end(); ++it) {
    std::string key =
        recipe_.Has("model." + it.key()) ? "model." + it.key() : "model.config." + it.key();
    std::string_view near = recipe::Nearest(it.key(), known);
    bool in_file = config.json.contains(it.key());
    if (in_file) continue;
    recipe_.Report(out_, near.empty() ? Severity::kWarning : Severity::kError, key,
                   "neither a key of a recipe nor of the model's config.json",
                   near.empty() ? "" : absl::StrCat("did you mean ", std::string(near), "?"));
  }
}

std::optional<InputFinder::Model> InputFinder::FindModel() {
  Model model;
  ModelSpec& spec = model.spec;
  spec.from_config = recipe_.Part("model") == "from_config";
  std::string key = "model.pretrained_model_name_or_path";
  json overrides = recipe_.Undeclared("model");
  if (spec.from_config) {
    const recipe::Value* config = recipe_.Find("model.config");
    key = "model.config";
    if (config && config->map()) {
      key = recipe_.Has("model.config.name_or_path") &&
                    !recipe_.Has("model.config.pretrained_model_name_or_path")
                ? "model.config.name_or_path"
                : "model.config.pretrained_model_name_or_path";
      overrides.update(recipe_.Undeclared("model.config"));
    }
  }
  std::optional<std::string> name = recipe_.OptString(key);
  if (!name) {
    recipe_.Error(out_, key, "missing", "name a directory or hub id with a config.json");
    return std::nullopt;
  }
  spec.name = *name;
  std::optional<std::string> directory = FindModelDirectory(key, *name);
  if (!directory) return std::nullopt;
  spec.path = *directory;

  auto bare = model::ReadModelConfig(*directory);
  if (!bare.ok()) {
    recipe_.Error(out_, key, Reason(bare.status()));
    return std::nullopt;
  }
  CheckOverrides(overrides, *bare);
  auto config = model::ReadModelConfig(*directory, overrides);
  if (!config.ok()) {
    recipe_.Error(out_, key, Reason(config.status()));
    return std::nullopt;
  }
  model.config = *config;
  spec.config_overrides = overrides;
  if (std::string why = model::WhyNotTrainable(*config); !why.empty()) {
    recipe_.Error(out_, key, absl::StrCat(*name, ": ", why));
    return std::nullopt;
  }
  if (auto quantized = config->json.find("quantization_config");
      quantized != config->json.end() && !quantized->is_null()) {
    recipe_.Error(out_, key,
                  absl::StrCat(*name, " has quantised weights, which are not trainable yet"),
                  "use a checkpoint in bfloat16 or float32");
    return std::nullopt;
  }
  if (!spec.from_config && !HasFileEnding(*directory, {".safetensors"})) {
    recipe_.Error(out_, key, absl::StrCat(*directory, " holds no .safetensors file"),
                  HasFileEnding(*directory, {".bin", ".pt", ".pth"})
                      ? "save the weights as safetensors: pickles are never read"
                      : "is the download complete?");
    return std::nullopt;
  }
  return model;
}

std::optional<std::string> InputFinder::FindDataPath(const std::string& key,
                                                     const std::string& name) {
  std::string local = Absolute(name);
  if (Exists(local)) return local;
  std::string cure =
      absl::StrCat("--", key, "=/path/to/data (a .json or .jsonl file, or a directory)");
  if (!model::CouldBeHubId(name)) {
    recipe_.Error(out_, key, absl::StrCat("no such file or directory: ", local),
                  absl::StrCat("use ", cure));
    return std::nullopt;
  }
  auto cached = model::FindHubDirectory(model::HubKind::kDataset, name,
                                        model::HuggingFaceCache(environment_));
  if (!cached.ok()) {
    recipe_.Error(out_, key, Reason(cached.status()), absl::StrCat("use ", cure));
    return std::nullopt;
  }
  if (!HasFileEnding(*cached, {".json", ".jsonl"})) {
    recipe_.Error(out_, key, absl::StrCat(*cached, " holds no .json or .jsonl file"),
                  absl::StrCat("convert it and use ", cure));
    return std::nullopt;
  }
  return *cached;
}

std::optional<DatasetSpec> InputFinder::FindDataset(const std::string& section,
                                                    const std::string& name) {
  DatasetSpec spec{.name = name, .kind = recipe_.Part(section)};
  auto at = [&](std::string_view key) { return absl::StrCat(section, ".", std::string(key)); };
  json split = recipe_.Free(at("split"));
  spec.split = split.is_string() ? split.get<std::string>() : "train";
  if (!split.is_string() && !split.is_null()) {
    recipe_.Error(out_, at("split"), "expected the name of a split", "use train or validation");
  }
  if (spec.kind == "mock") {
    for (const char* key : {"vocab_size", "seq_len", "num_samples", "seed"}) {
      if (auto value = recipe_.OptInt(at(key))) spec.args[key] = *value;
    }
    return spec;
  }
  if (spec.kind != "squad") {
    recipe_.Error(out_, at("_target_"), "this kind of data set is not trainable yet",
                  "use make_squad_dataset or MockIterableDataset");
    return std::nullopt;
  }
  spec.limit_samples = recipe_.OptInt(at("limit_dataset_samples"));
  spec.seq_length = recipe_.OptInt(at("seq_length"));
  spec.padding = recipe_.String(at("padding")) == "max_length" ? "max_length" : "do_not_pad";
  spec.truncation = recipe_.String(at("truncation")) != "do_not_truncate";
  spec.answer_only_loss_mask = recipe_.Bool(at("answer_only_loss_mask"));
  spec.lossy_utf8 = recipe_.Bool(at("lossy"));
  for (const char* needs : {"padding", "truncation"}) {
    bool asked =
        std::string_view(needs) == "padding" ? spec.padding == "max_length" : spec.truncation;
    if (asked && !spec.seq_length) {
      recipe_.Error(out_, at(needs), "needs seq_length", absl::StrCat("set ", at("seq_length")));
    }
  }
  if (auto tokenizer = recipe_.OptString(at("tokenizer.pretrained_model_name_or_path"));
      tokenizer && *tokenizer != recipe_.OptString("model.pretrained_model_name_or_path")) {
    recipe_.Error(out_, at("tokenizer.pretrained_model_name_or_path"),
                  "a tokenizer other than the model's is not trainable yet", "remove it");
  }
  std::string key = DataKey(recipe_, section);
  std::optional<std::string> path = FindDataPath(key, recipe_.String(key));
  if (!path) return std::nullopt;
  spec.path = *path;
  return spec;
}

std::string InputFinder::ChatTemplate() {
  std::string key = "model.chat_template";
  if (recipe_.Part("dataset") == "squad" && recipe_.Has("dataset.chat_template")) {
    key = "dataset.chat_template";
  }
  std::optional<std::string> given = recipe_.OptString(key);
  if (!given) return "";
  // Jinja has braces, a path has none.
  if (given->find('{') != std::string::npos) return *given;
  std::string path = Absolute(*given);
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxTemplateBytes) {
    recipe_.Error(out_, key, absl::StrCat(*given, " is neither Jinja text nor a file"),
                  "name a .jinja file");
    return "";
  }
  std::string text = ReadFile(path).value_or("");
  json file = json::parse(text, nullptr, false);
  if (file.is_object() && file.contains("chat_template") && file["chat_template"].is_string()) {
    return file["chat_template"].get<std::string>();
  }
  return text;
}

}  // namespace am
