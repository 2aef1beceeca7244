// The schema: what each key of a recipe is. One declaration a key, as data, and the only place that
// knows it: the binder types and checks by it, Recipe takes defaults from it,
// docs/recipe_reference.md is printed from it.
//
// A section is a map of keys. A section with parts is one whose `_target_` (a Python name) selects
// a part that is built in here; the keys of the part are then added to the section's own.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/recipe/value.h"

namespace am::recipe {

enum class Type {
  kBool,       // true, false and YAML 1.1's yes, no, on, off
  kInt,        // decimal (1_000), 0x…; 1e3 where it is whole
  kFloat,      // 1e-5 as well as 1.0e-5
  kText,       // whatever stands there, `on` and `007` included
  kDtype,      // bf16, bfloat16, torch.bfloat16, …; kept as "bfloat16"
  kChoice,     // one of `choices`, in any case
  kTexts,      // a list of texts, or one
  kFloats,     // a list of numbers
  kInts,       // a list of integers, or one
  kSlurmTime,  // a time limit as Slurm writes it (slurm_time.h); kept as "1-02:00:00"
  kFree,       // anything, typed by YAML 1.2's core schema plus floats without a dot
  kSection,    // a map of `section`
  kPart,       // a map of `section` with `_target_`, or the target alone as text
  kSections,   // a list of maps of `section`, or of text alone where the section says what that
               // means
};

enum class Support {
  kHonoured,
  kNoEffect,      // accepted in silence: the results are the same either way
  kIgnored,       // accepted with a warning: what it asks for is not done
  kNotTrainable,  // understood (checked, planned for) but refused when the job is to run, unless
                  // neutral
};

inline constexpr double kAny = std::numeric_limits<double>::infinity();

// What a text names that lies outside the recipe; looked at where paths are to be checked.
enum class Names {
  kNothing,
  kInput,       // a file or directory
  kPattern,     // files, with `*` for any characters
  kModel,       // a hub id or a model's directory
  kData,        // a hub id, a directory or a file
  kTemplate,    // a file, or the template itself
  kOutput,      // a directory that is written to, made where it is not there
  kOutputFile,  // a file that is written
};

struct Section;

struct Key {
  std::string_view name;  // a last `*` stands for any ending
  Type type = Type::kText;
  bool nullable = false;
  std::string_view fallback = "";  // the default as YAML; empty: none
  std::string_view choices = "";   // kChoice: "full=true=on selective off=false"
  double least = -kAny;
  double most = kAny;
  std::string_view unit = "";
  std::string_view means = "";
  Support support = Support::kHonoured;
  std::string_view neutral =
      "";  // kNotTrainable, kIgnored: values, besides the default and null, that ask for nothing
  std::string_view instead = "";  // kIgnored, kNotTrainable: what to do
  const Section* section = nullptr;
  bool overlay = false;  // a field of the model's config.json, laid over it
  Names names = Names::kNothing;
};

struct Part {
  std::string_view
      targets;  // Python names, separated by blanks; their last component alone is accepted, too
  std::string_view name;  // ours
  Support support = Support::kHonoured;
  std::span<const Key> keys = {};
  bool open = false;  // unknown keys are accepted, as for Section
};

struct Section {
  std::span<const Key> keys = {};
  std::span<const Part> parts = {};
  std::string_view default_part = "";
  bool open = false;                 // unknown keys are free, unless they look like a known one
  std::string_view enabled_by = "";  // the key that switches the section off, e.g. "enabled"
  const Section* also = nullptr;     // a section whose keys and parts it has, too
  std::string_view alone = "";       // the key that a value of text alone stands for
};

extern const Section kRecipeSchema;

bool HasParts(const Section& section);
// The part that a target names, by its full path or by its last component; null where none is.
const Part* FindPart(const Section& section, std::string_view target);
// The part of a section's value: by `_target_`, else the default one; null where the target is
// unknown or there are no parts.
const Part* PartOf(const Section& section, const Value* value);
// The declaration of a key of a section under a part; null where there is none.
const Key* FindKey(const Section& section, const Part* part, std::string_view name);
// The same, whatever the part: where the recipe's kind implies it.
const Key* FindKeyOfAnyPart(const Section& section, std::string_view name);
// The declaration of a dotted key, given what the recipe says about the targets on the way.
const Key* FindKey(const Value& root, std::string_view dotted);
// Every declaration of a dotted key: one, or one for each part that has it. Elements of a list are
// its own name, `[]` or a number. Without a recipe there is no telling which part is meant.
struct Declaration {
  const Key* key = nullptr;
  const Part* part = nullptr;  // null: the section's own
  // What becomes of it where it says nothing itself: what becomes of the part or section around it.
  Support support = Support::kHonoured;
};
std::vector<Declaration> FindDeclarations(std::string_view dotted);
std::vector<Declaration> DeclarationsOf(const Section& section);  // of all its keys

// All names that a section knows under a part, for suggestions.
std::vector<std::string_view> KnownKeys(const Section& section, const Part* part);

// The same under every part.
std::vector<std::string_view> KnownKeysOfAllParts(const Section& section);

// The names of a choice, without their aliases: "full", "selective", "off".
std::vector<std::string_view> ChoiceNames(const Key& key);

std::vector<std::string_view> Split(std::string_view text, char separator);

}  // namespace am::recipe
