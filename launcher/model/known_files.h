// The files of configs/models, compiled in.
#pragma once

#include <span>
#include <string_view>

namespace am::model {

struct KnownFile {
  std::string_view hub_id;
  std::string_view json;
};

std::span<const KnownFile> KnownFiles();

}  // namespace am::model
