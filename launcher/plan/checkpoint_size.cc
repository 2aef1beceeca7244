#include "launcher/plan/checkpoint_size.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <memory>

#include "launcher/plan/make_workload.h"
#include "launcher/plan/sharding.h"

namespace am::plan {
namespace {

double Trained(const Workload& workload) {
  Workload whole = workload;  // as one rank would hold it
  whole.dims = {};
  const model::ModelShape& shape = *whole.shape;
  double sum =
      HeldOf(whole, shape.embedding, false).Trained() + HeldOf(whole, shape.head, false).Trained();
  for (int kind : shape.layers) {
    sum += HeldOf(whole, shape.kinds[static_cast<size_t>(kind)].weights).Trained();
  }
  return sum;
}

std::string Gib(double bytes) { return absl::StrFormat("%.3g GiB", bytes / (1 << 30)); }

}  // namespace

CheckpointSize SizeOfCheckpoint(const Workload& workload, const recipe::Recipe& recipe) {
  const StateBytes& bytes = workload.bytes;
  double trained = Trained(workload);
  CheckpointSize size{.weights = trained * bytes.parameter,
                      .states = trained * (bytes.master + bytes.moment1 + bytes.moment2)};
  if (!workload.adapter && recipe.String("checkpoint.save_consolidated") != "false") {
    size.exported = size.weights;
  }
  return size;
}

std::optional<CheckpointSize> SizeOfCheckpoint(const recipe::Recipe& recipe,
                                               const model::ModelConfig& model) {
  absl::StatusOr<model::ModelShape> shape = model::ShapeOf(model.json);
  if (!shape.ok()) return std::nullopt;
  auto shared = std::make_shared<const model::ModelShape>(*std::move(shape));
  return SizeOfCheckpoint(TrainingOf(recipe, shared, NodeShape()).workload, recipe);
}

void CheckDisk(const recipe::Recipe& recipe, const CheckpointSize& size, double free_bytes,
               recipe::Diagnostics& out) {
  if (!recipe.Bool("checkpoint.enabled")) return;
  double one = size.Sum();
  int64_t kept = recipe.OptInt("checkpoint.max_recent_checkpoints").value_or(1);
  double all = one * static_cast<double>(kept + 1);
  if (all <= free_bytes) return;
  bool none = one > free_bytes;
  recipe.Report(
      out, none ? recipe::Severity::kError : recipe::Severity::kWarning,
      "checkpoint.checkpoint_dir",
      absl::StrCat(
          "a checkpoint takes ", Gib(one), " (weights ", Gib(size.weights), ", optimizer ",
          Gib(size.states), size.exported > 0 ? absl::StrCat(", export ", Gib(size.exported)) : "",
          "), and ", Gib(free_bytes), " are free",
          none ? "" : absl::StrCat("; ", kept, " kept and one being written take ", Gib(all))),
      "free some space or choose another directory");
}

}  // namespace am::plan
