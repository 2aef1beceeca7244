#include "tests/launcher/plan/recorded_rows.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>

#include "launcher/model/config.h"
#include "launcher/model/shape.h"
#include "launcher/plan/make_workload.h"
#include "launcher/plan/plan.h"
#include "launcher/recipe/load.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells(1);
  for (char c : line) {
    if (c == '\t') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::optional<double> Number(std::string text) {
  if (!text.empty() && text.front() == '~') text.erase(0, 1);
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string::npos) {
    return std::nullopt;
  }
  return std::stod(text);
}

std::shared_ptr<const model::ModelShape> ShapeFor(const recipe::Recipe& recipe, std::string& why) {
  std::optional<std::string> id = GivenText(recipe, "model.config.pretrained_model_name_or_path");
  if (!id) id = GivenText(recipe, "model.pretrained_model_name_or_path");
  if (!id) {
    why = "names no model";
    return nullptr;
  }
  std::string directory = *id;
  if (size_t slash = directory.find('/'); slash != std::string::npos) {
    directory.replace(slash, 1, "--");
  }
  auto config = model::ReadModelConfig(testing::SharedData() / "models" / directory);
  if (!config.ok()) {
    why = std::string(config.status().message());
    return nullptr;
  }
  auto shape = model::ShapeOf(config->json);
  if (!shape.ok()) {
    why = std::string(shape.status().message());
    return nullptr;
  }
  return std::make_shared<model::ModelShape>(*std::move(shape));
}

}  // namespace

RecordedRows ReadRecordedRows() {
  RecordedRows out;
  std::istringstream table(testing::ReadFile(testing::SharedData() / "oracle/performance.tsv"));
  std::string line;
  if (!std::getline(table, line)) return out;
  std::vector<std::string> names = Cells(line);
  std::map<int, fs::path> recipes;
  fs::path folder = testing::SourceDirectory() / "configs/recorded";
  if (fs::exists(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::string name = entry.path().filename();
      if (entry.path().extension() == ".yaml") recipes[std::stoi(name)] = entry.path();
    }
  }
  for (int number = 0; std::getline(table, line); ++number) {
    std::vector<std::string> cells = Cells(line);
    std::map<std::string, std::string> cell;
    for (size_t i = 0; i < names.size() && i < cells.size(); ++i) cell[names[i]] = cells[i];
    RecordedRow row{.number = number,
                    .model = cell["model"],
                    .gpu = cell["gpu"],
                    .precision = cell["precision"],
                    .seconds = Number(cell["step_time_s"]),
                    .tflops_per_gpu = Number(cell["model_tflops_per_gpu"])};
    row.full_length = (cell["task"] == "lora" || cell["task"] == "pretrain") &&
                      cell["workload"].starts_with("Mock");
    auto leave = [&](const std::string& why) {
      out.left_out.push_back(std::to_string(number) + " " + row.model + ": " + why);
    };
    if (!recipes.contains(number)) {
      leave("no recipe");
      continue;
    }
    recipe::LoadResult loaded = recipe::LoadRecipe({.path = recipes[number]});
    if (!loaded.recipe) {
      leave(recipe::RenderText(loaded.diagnostics));
      continue;
    }
    std::string why;
    std::shared_ptr<const model::ModelShape> shape = ShapeFor(*loaded.recipe, why);
    if (!shape) {
      leave(why);
      continue;
    }
    auto cluster =
        FindCluster(row.gpu == "GB200" ? "gb200-nvl72" : "dgx-h100", [] { return Machine(); });
    if (!cluster.ok()) {
      leave(std::string(cluster.status().message()));
      continue;
    }
    int gpus = std::stoi(cell["gpus"]);
    PlanOptions options{.nodes = std::max(1, gpus / cluster->node.gpus),
                        .ranks_per_node = std::min(gpus, cluster->node.gpus)};
    PlanResult plan = MakePlan(*loaded.recipe, *cluster, options);
    if (!plan.plan) {
      leave(recipe::RenderText(plan.diagnostics));
      continue;
    }
    row.workload = MakeWorkload(*loaded.recipe, *plan.plan, shape, cluster->node);
    out.rows.push_back(std::move(row));
  }
  return out;
}

std::vector<const RecordedRow*> RowsToFit(const RecordedRows& rows) {
  std::vector<const RecordedRow*> fit;
  for (const RecordedRow& row : rows.rows) {
    if (row.full_length && row.seconds && row.tflops_per_gpu) fit.push_back(&row);
  }
  return fit;
}

}  // namespace am::plan
