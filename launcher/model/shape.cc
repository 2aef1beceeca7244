#include "launcher/model/shape.h"

#include <algorithm>
#include <cmath>

namespace am::model {

bool Layer::has_experts() const {
  return std::any_of(weights.begin(), weights.end(),
                     [](const Weight& weight) { return weight.role == Role::kExpert; });
}

int64_t Numbers(const Layer& layer) {
  int64_t sum = 0;
  for (const Weight& weight : layer.weights) sum += weight.Numbers();
  return sum;
}

double Macs(const Layer& layer) {
  double sum = 0;
  for (const Weight& weight : layer.weights) sum += weight.Macs();
  return sum;
}

}  // namespace am::model
