#include "launcher/plan/batch.h"

#include <absl/strings/str_cat.h>

#include "launcher/plan/arithmetic.h"

namespace am::plan {
namespace {

constexpr char kGlobal[] = "step_scheduler.global_batch_size";
constexpr char kLocal[] = "step_scheduler.local_batch_size";
constexpr char kAccumulation[] = "step_scheduler.grad_acc_steps";
constexpr char kLoader[] = "dataloader.batch_size";

// The micro-batch, in either spelling.
std::optional<int64_t> LocalBatch(const recipe::Recipe& recipe, recipe::Diagnostics& out) {
  bool scheduler = recipe.Has(kLocal), loader = recipe.Has(kLoader);
  if (scheduler && loader && recipe.Int(kLocal) != recipe.Int(kLoader)) {
    recipe.Error(out, kLoader,
                 absl::StrCat(recipe.Int(kLoader), " is not step_scheduler.local_batch_size ",
                              recipe.Int(kLocal), ", and both name the micro-batch"),
                 "give one of the two");
    return std::nullopt;
  }
  return !scheduler && loader ? recipe.Int(kLoader) : recipe.Int(kLocal);
}

}  // namespace

std::optional<Batch> ResolveBatch(const recipe::Recipe& recipe, int dp_size,
                                  recipe::Diagnostics& out) {
  for (const char* key : {kGlobal, kLocal, kAccumulation, kLoader}) {
    if (IsBroken(recipe.root(), key)) return std::nullopt;
  }
  std::optional<int64_t> local = LocalBatch(recipe, out);
  if (!local) return std::nullopt;
  int64_t unit = *local * dp_size;  // samples that all ranks take at once
  std::string unit_text = absl::StrCat("local_batch_size ", *local, " · dp_size ", dp_size);
  Batch batch{.local_batch_size = *local};

  if (recipe.Has(kAccumulation)) {
    batch.grad_acc_steps = recipe.Int(kAccumulation);
    batch.global_batch_size = batch.grad_acc_steps * unit;
    batch.reason = absl::StrCat("global batch ", batch.global_batch_size, " = grad_acc_steps ",
                                batch.grad_acc_steps, " · ", unit_text);
    if (recipe.Has(kGlobal) && recipe.Int(kGlobal) != batch.global_batch_size) {
      recipe.Error(
          out, kGlobal,
          absl::StrCat(recipe.Int(kGlobal), " is not grad_acc_steps ", batch.grad_acc_steps, " · ",
                       unit_text, " = ", batch.global_batch_size),
          "give one of global_batch_size and grad_acc_steps");
      return std::nullopt;
    }
    return batch;
  }

  batch.global_batch_size = recipe.Int(kGlobal);
  if (batch.global_batch_size % unit != 0) {
    std::string hint =
        absl::StrCat("use ", OrList(NearestMultiples(batch.global_batch_size, unit)));
    if (batch.global_batch_size % dp_size == 0) {
      absl::StrAppend(&hint, ", or local_batch_size ",
                      OrList(DivisorsOf(batch.global_batch_size / dp_size)));
    }
    recipe.Error(out, kGlobal,
                 absl::StrCat(batch.global_batch_size, recipe.Has(kGlobal) ? "" : " (the default)",
                              " is not divisible by ", unit_text, " = ", unit),
                 hint);
    return std::nullopt;
  }
  batch.grad_acc_steps = batch.global_batch_size / unit;
  batch.reason = absl::StrCat("grad_acc_steps ", batch.grad_acc_steps, " = global batch ",
                              batch.global_batch_size, " / (", unit_text, ")");
  return batch;
}

}  // namespace am::plan
