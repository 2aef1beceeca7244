// The files of configs/clusters, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace am::plan {

struct BuiltInCluster {
  std::string_view name;
  std::string_view yaml;
};

std::span<const BuiltInCluster> BuiltInClusterFiles();

}  // namespace am::plan
