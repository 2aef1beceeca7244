#include "launcher/cli/check_paths.h"

#include <glob.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "launcher/model/config.h"
#include "launcher/recipe/schema.h"

namespace am::cli {
namespace {

namespace fs = std::filesystem;
using recipe::Names;
using recipe::Value;

// `hf://org/name/part` is the data set org/name.
std::string WithoutScheme(std::string name) {
  if (!name.starts_with("hf://")) return name;
  name.erase(0, 5);
  size_t slash = name.find('/');
  size_t second = slash == std::string::npos ? slash : name.find('/', slash + 1);
  return name.substr(0, second);
}

bool MatchesAny(const std::string& pattern) {
  glob_t found{};
  bool any = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0 && found.gl_pathc > 0;
  globfree(&found);
  return any;
}

class PathChecker {
 public:
  PathChecker(const recipe::Recipe& recipe, const recipe::Environment& environment)
      : recipe_(recipe), cache_(model::HuggingFaceCache(environment)) {}

  recipe::Diagnostics Check() {
    Walk(recipe::kRecipeSchema, recipe_.root(), "");
    return std::move(out_);
  }

 private:
  void Walk(const recipe::Section& section, const Value& value, const std::string& path) {
    if (!value.map()) return;
    const recipe::Part* part = recipe::PartOf(section, &value);
    bool implied = recipe_.kind() != "finetune" && !value.Find("_target_");
    for (const recipe::Entry& entry : *value.map()) {
      const recipe::Key* key = implied ? recipe::FindKeyOfAnyPart(section, entry.key)
                                       : recipe::FindKey(section, part, entry.key);
      if (!key || key->support == recipe::Support::kIgnored) continue;
      CheckKey(*key, entry.value, absl::StrCat(path, entry.key));
    }
  }

  void CheckKey(const recipe::Key& key, const Value& value, const std::string& path) {
    if (value.list()) {
      for (size_t i = 0; i < value.list()->size(); ++i) {
        CheckKey(key, (*value.list())[i], absl::StrCat(path, ".", i));
      }
    } else if (key.section && value.map()) {
      Walk(*key.section, value, path + ".");
    } else if (const auto* text = std::get_if<std::string>(&value.data)) {
      Names names = key.names;
      if (key.section && !key.section->alone.empty()) {
        names = recipe::FindKey(*key.section, nullptr, key.section->alone)->names;
      }
      // `model.config: org/name` is as its pretrained_model_name_or_path.
      if (path == "model.config") names = Names::kModel;
      if (!text->empty()) CheckName(names, *text, path);
    }
  }

  void CheckName(Names names, const std::string& name, const std::string& key) {
    switch (names) {
      case Names::kNothing:
        return;
      case Names::kInput:
        if (!Exists(name)) Report(key, absl::StrCat("no such file or directory: ", name));
        return;
      case Names::kPattern: {
        // Weights stand between prefixes; a prefix lacks its ending.
        bool weight = name.find_first_not_of("0123456789.") == std::string::npos;
        if (!weight && !MatchesAny(name) && !MatchesAny(name + "*")) {
          Report(key, absl::StrCat("no file matches ", name));
        }
        return;
      }
      case Names::kTemplate: {
        bool file = name.find_first_of("{\n") == std::string::npos;
        if (file && !Exists(name)) Report(key, absl::StrCat("no such file: ", name));
        return;
      }
      case Names::kModel:
        if (Exists(name) && !IsDirectory(name)) {
          Report(key, absl::StrCat(name, " is a file, not a model directory"),
                 "name the directory that holds config.json");
        } else {
          CheckHub(model::HubKind::kModel, name, key, "/path/to/model");
        }
        return;
      case Names::kData:
        CheckHub(model::HubKind::kDataset, WithoutScheme(name), key, "/path/to/data");
        return;
      case Names::kOutput:
        CheckOutput(name, key);
        return;
      case Names::kOutputFile:
        if (IsDirectory(name)) {
          Report(key, absl::StrCat(name, " is a directory"), "name a file");
        } else {
          CheckOutput(fs::path(name).parent_path().string(), key);
        }
        return;
    }
  }

  void CheckHub(model::HubKind kind, const std::string& name, const std::string& key,
                const char* example) {
    if (Exists(name)) return;
    std::string cure = absl::StrCat("use --", key, "=", example);
    if (!model::CouldBeHubId(name)) {
      Report(key, absl::StrCat("no such file or directory: ", name), cure);
    } else if (auto cached = model::FindHubDirectory(kind, name, cache_); !cached.ok()) {
      Report(key, std::string(cached.status().message()), absl::StrCat("download it, or ", cure));
    }
  }

  void CheckOutput(const std::string& directory, const std::string& key) {
    std::string there = NearestThere(directory);
    if (!IsDirectory(there)) {
      Report(key, absl::StrCat(there, " is a file, so ", directory, " cannot be made"),
             "choose another directory");
    } else if (access(there.c_str(), W_OK | X_OK) != 0) {
      Report(key, absl::StrCat(there, " cannot be written to"), "choose another directory");
    }
  }

  void Report(const std::string& key, std::string message, std::string hint = "") {
    recipe_.Error(out_, key, std::move(message), std::move(hint));
  }

  const recipe::Recipe& recipe_;
  std::string cache_;
  recipe::Diagnostics out_;
};

}  // namespace

recipe::Diagnostics CheckPaths(const recipe::Recipe& recipe,
                               const recipe::Environment& environment) {
  return PathChecker(recipe, environment).Check();
}

}  // namespace am::cli
