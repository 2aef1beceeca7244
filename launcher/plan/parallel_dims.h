// ParallelDims: the degrees of parallelism, resolved: their product is the world size, no null is
// left.
//
// Derived from the `distributed` section and a world size by DeriveDims, which refuses what does
// not divide with the arithmetic and the nearest legal values. Expert ranks (ep) are not a factor
// of the world: they are taken out of the others.
#pragma once

#include <optional>

#include "launcher/recipe/recipe.h"

namespace am::plan {

struct ParallelDims {
  int pp = 1;
  int dp_replicate = 1;
  int dp_shard = 1;  // under DDP, which shards nothing, the whole of dp
  int cp = 1;
  int tp = 1;
  int ep = 1;

  int dp() const { return dp_replicate * dp_shard; }
  int world() const { return pp * dp() * cp * tp; }
  // Ranks over which an expert's weights are sharded: the rest of a stage once ep is taken out.
  int ep_shard() const { return ep > 1 ? dp() * cp * tp / ep : 1; }
  bool operator==(const ParallelDims&) const = default;
};

// Nothing where the recipe's degrees do not fit the world; `out` then says why.
std::optional<ParallelDims> DeriveDims(const recipe::Recipe& recipe, int world_size,
                                       recipe::Diagnostics& out);

// The smallest world that the recipe's degrees allow: what it names explicitly, and the least dp
// that ep needs.
int SmallestWorld(const recipe::Recipe& recipe);

}  // namespace am::plan
