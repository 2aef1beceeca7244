// For tests in Python: reads one config.json a line, writes its shape or its error a line.
//   {"parameters": 8030261248, "layers": [[{"name": …, "in": …, "out": …, "copies": …}, …], …], …}
#include <iostream>
#include <string>

#include "launcher/model/shape.h"

namespace {

using am::model::Layer;
using am::model::ModelShape;
using nlohmann::json;

json Printed(const std::vector<am::model::Weight>& weights) {
  json list = json::array();
  for (const am::model::Weight& weight : weights) {
    list.push_back({{"name", weight.name},
                    {"in", weight.in},
                    {"out", weight.out},
                    {"copies", weight.copies},
                    {"numbers", weight.Numbers()}});
  }
  return list;
}

json Printed(const ModelShape& shape) {
  json kinds = json::array(), towers = json::array();
  for (const Layer& kind : shape.kinds) kinds.push_back(Printed(kind.weights));
  for (const Layer& tower : shape.towers) towers.push_back(Printed(tower.weights));
  return {{"family", shape.family},
          {"parameters", Parameters(shape)},
          {"active_parameters", ActiveParameters(shape)},
          {"embedding", Printed(shape.embedding)},
          {"head", Printed(shape.head)},
          {"kinds", kinds},
          {"layers", shape.layers},
          {"towers", towers}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    absl::StatusOr<ModelShape> shape = am::model::ShapeOf(json::parse(line, nullptr, false));
    json answer =
        shape.ok() ? Printed(*shape) : json{{"error", std::string(shape.status().message())}};
    std::cout << answer.dump() << std::endl;
  }
}
