// The schema is data: these hold for every key of it.
#include "launcher/recipe/schema.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "launcher/recipe/reference.h"
#include "launcher/recipe/scalar.h"
#include "launcher/recipe/suggest.h"
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

void EachKey(const Section& section, const std::string& path,
             const std::function<void(const Key&, const std::string&)>& visit) {
  auto all = [&](std::span<const Key> keys, const std::string& prefix) {
    for (const Key& key : keys) {
      std::string name = prefix + std::string(key.name);
      visit(key, name);
      if (key.section) EachKey(*key.section, name + ".", visit);
    }
  };
  for (const Section* table = &section; table; table = table->also) {
    all(table->keys, path);
    for (const Part& part : table->parts) {
      all(part.keys, path + "<" + std::string(part.name) + ">.");
    }
  }
}

TEST(Schema, EveryDefaultAndEveryNeutralValueIsLegal) {
  EachKey(kRecipeSchema, "", [](const Key& key, const std::string& path) {
    EXPECT_NO_THROW(FallbackOf(key)) << path;
    if (key.type == Type::kBool || key.type == Type::kInt || key.type == Type::kFloat) {
      for (std::string_view word : Split(key.neutral, ' ')) {
        Key alone = key;
        alone.fallback = word;
        EXPECT_NO_THROW(FallbackOf(alone)) << path;
      }
    }
  });
}

TEST(Schema, EveryKeySaysWhatItMeans) {
  EachKey(kRecipeSchema, "", [](const Key& key, const std::string& path) {
    EXPECT_FALSE(key.means.empty()) << path;
    EXPECT_EQ(key.type == Type::kChoice, !key.choices.empty()) << path;
    EXPECT_EQ(key.section != nullptr,
              key.type == Type::kSection || key.type == Type::kPart || key.type == Type::kSections)
        << path;
    EXPECT_TRUE(!key.section || key.fallback.empty()) << path << ": sections have no default";
    EXPECT_TRUE(key.least <= key.most) << path;
    EXPECT_NE(Expectation(key), "") << path;
  });
}

TEST(Schema, EveryDefaultPartIsThere) {
  EachKey(kRecipeSchema, "", [](const Key& key, const std::string& path) {
    if (!key.section) return;
    EXPECT_EQ(HasParts(*key.section), !key.section->default_part.empty()) << path;
    if (!HasParts(*key.section)) return;
    EXPECT_TRUE(FindPart(*key.section, key.section->default_part)) << path;
    EXPECT_TRUE(FindKey(*key.section, nullptr, "_target_")) << path;
  });
}

TEST(Schema, NoKeyIsDeclaredTwice) {
  std::set<std::string> seen;
  // Sections may be used in two places, so a key counts with its whole path.
  EachKey(kRecipeSchema, "", [&](const Key& key, const std::string& path) {
    // A field of config.json may be a key of the section itself, which then comes first.
    EXPECT_TRUE(seen.insert(path).second || key.overlay) << path;
  });
  EXPECT_GT(seen.size(), 1500u);
}

TEST(Schema, FindsPartsByPathAndByClassName) {
  const Key* optimizer = FindKey(kRecipeSchema, nullptr, "optimizer");
  ASSERT_TRUE(optimizer);
  const Section& section = *optimizer->section;
  EXPECT_EQ(FindPart(section, "torch.optim.AdamW")->name, "adamw");
  EXPECT_EQ(FindPart(section, "AdamW")->name, "adamw");
  EXPECT_EQ(FindPart(section, "adamw")->name, "adamw");
  EXPECT_EQ(FindPart(section, "evil.AdamW"), nullptr);
  const Section& kinds = *FindKey(kRecipeSchema, nullptr, "recipe")->section;
  EXPECT_EQ(FindPart(kinds, "any.module.TrainFinetuneRecipeForNextTokenPrediction")->name,
            "finetune");
}

TEST(Suggest, NamesTheNearestKnownKey) {
  const std::string_view kKnown[] = {"grad_acc_steps", "global_batch_size", "max_steps", "dim"};
  EXPECT_EQ(Nearest("grad_acc_step", kKnown), "grad_acc_steps");
  EXPECT_EQ(Nearest("grad-acc-steps", kKnown), "grad_acc_steps");
  EXPECT_EQ(Nearest("grad_acc", kKnown), "grad_acc_steps");
  EXPECT_EQ(Nearest("golbal_batch_size", kKnown), "global_batch_size");
  EXPECT_EQ(Nearest("d", kKnown), "");
  EXPECT_EQ(Nearest("learning_rate", kKnown), "");
  EXPECT_EQ(EditDistance("abcd", "abdc"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
}

TEST(Reference, IsWhatTheSchemaSays) {
  std::filesystem::path path = testing::SourceDirectory() / "docs" / "recipe_reference.md";
  std::string printed = RecipeReference();
  if (std::getenv("AMCTL_UPDATE_EXPECTED")) std::ofstream(path, std::ios::binary) << printed;
  EXPECT_TRUE(printed == testing::ReadFile(path))
      << path << " is out of date: run this test with AMCTL_UPDATE_EXPECTED=1";
}

}  // namespace
}  // namespace am::recipe
