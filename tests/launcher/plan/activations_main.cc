// am-activations: reads {"config": config.json, "attention": "sdpa", …} and prints the bytes that
// the memory estimate counts for one token of each kind of layer, by part. For tests/interop.
#include <iostream>
#include <nlohmann/json.hpp>

#include "launcher/plan/activations.h"

int main() {
  using namespace am;
  nlohmann::json request = nlohmann::json::parse(std::cin);
  absl::StatusOr<model::ModelShape> shape = model::ShapeOf(request["config"]);
  if (!shape.ok()) {
    std::cerr << shape.status().ToString() << "\n";
    return 2;
  }
  plan::Workload workload;
  workload.shape = std::make_shared<model::ModelShape>(*std::move(shape));
  workload.node.gpus = 1;  // kernels as the request has them, not am-rank's own
  workload.seq_length = request["seq_length"];
  workload.precision =
      request["dtype"] == "float32" ? plan::Precision::kFloat32 : plan::Precision::kBfloat16;
  workload.kernels.fused_elementwise = false;
  workload.kernels.grouped_experts = false;
  workload.kernels.attention = request["attention"] == "eager" ? plan::AttentionKernel::kEager
                                                               : plan::AttentionKernel::kSdpa;
  if (request.contains("adapted"))
    workload.adapter = plan::Adapter{.rank = request["rank"], .modules = request["adapted"]};
  nlohmann::json answer = nlohmann::json::array();
  for (const model::Layer& layer : workload.shape->kinds) {
    plan::LayerActivations kept = plan::ActivationsOf(workload, layer);
    nlohmann::json parts;
    for (int part = 0; part < plan::kLayerParts; ++part) {
      double bytes = plan::OfRank(workload, kept.parts[part]);
      if (bytes > 0) parts[std::string(plan::Name(static_cast<plan::LayerPart>(part)))] = bytes;
    }
    answer.push_back({{"kind", layer.kind},
                      {"bytes", plan::OfRank(workload, kept.All())},
                      {"input", kept.input},
                      {"parts", parts}});
  }
  std::cout << answer.dump() << "\n";
}
