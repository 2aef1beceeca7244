// Parameters, gradients and optimizer states of a rank.
#include <algorithm>

#include "launcher/plan/memory_stage.h"

namespace am::plan {

double StageCounter::Shard(double Pool::*part) const {
  return held_.dense.*part / p_.dense_shards + held_.experts.*part / p_.expert_shards;
}

std::string StageCounter::Shards() const {
  if (p_.dense_shards == 1 && p_.expert_shards == 1) return "";
  if (held_.experts.Sum() == 0 || p_.dense_shards == p_.expert_shards)
    return absl::StrFormat(" / %g shards", p_.dense_shards);
  return absl::StrFormat(" (experts / %g shards, the others / %g)", p_.expert_shards,
                         p_.dense_shards);
}

std::string StageCounter::Numbers(double numbers, const char* what) const {
  std::string text = absl::StrCat(CountText(numbers), " ", what);
  if (w_.dims.tp > 1) absl::StrAppend(&text, " after tp ", w_.dims.tp);
  if (w_.dims.ep > 1 && held_.experts.Sum() > 0) absl::StrAppend(&text, ", ep ", w_.dims.ep);
  return text;
}

void StageCounter::Parameters() {
  auto group = &RankMemory::parameters;
  double trained = Held(&Pool::trained), frozen = Held(&Pool::frozen);
  double packed = Held(&Pool::packed);
  // A frozen base has no copies: it is stored as it is computed with, or packed.
  ledger_.Add(group, w_.adapter ? "adapters" : "parameters", Shard(&Pool::trained) * Resident(),
              [&] {
                return absl::StrCat(Numbers(trained, w_.adapter ? "adapter numbers" : "parameters"),
                                    absl::StrFormat(" · %g B", Resident()), Shards());
              });
  ledger_.Add(group, "frozen parameters", Shard(&Pool::frozen) * w_.bytes.parameter, [&] {
    return absl::StrCat(Numbers(frozen, "parameters"),
                        absl::StrFormat(" · %g B", w_.bytes.parameter), Shards());
  });
  ledger_.Add(group, "frozen matrices", Shard(&Pool::packed) * w_.bytes.frozen, [&] {
    return absl::StrCat(Numbers(packed, "parameters"), absl::StrFormat(" · %g B", w_.bytes.frozen),
                        Shards());
  });
  Gathered();
}

double StageCounter::Copied(const HeldNumbers& held) const {
  bool cast = Resident() != w_.bytes.parameter;
  auto copied = [&](const Pool& pool, double shards) {
    return shards > 1 ? pool.Sum() : cast ? pool.trained : 0;
  };
  // Looked-up tables stay where they lie.
  return copied(held.dense, p_.dense_shards) + copied(held.experts, p_.expert_shards) -
         (p_.dense_shards > 1 ? held.tables : 0);
}

void StageCounter::Gathered() {
  auto group = &RankMemory::parameters;
  double bytes = w_.bytes.parameter;
  bool sharded = p_.dense_shards > 1 || p_.expert_shards > 1;
  if (w_.keeps_gathered || !sharded) {
    double copied = Copied(held_);
    ledger_.Add(group, "gathered parameters", copied * bytes, [&] {
      return absl::StrFormat("%s parameters gathered for the whole step · %g B", CountText(copied),
                             bytes);
    });
  } else {
    double ends = Copied(ends_), layer = Copied(largest_);
    // The layer at work and the next; two ahead in backward where prefetch is set.
    int layers = std::min(content_.layers, w_.kernels.prefetch ? 3 : 2);
    ledger_.Add(group, "gathered layers", layers * layer * bytes, [&] {
      return absl::StrFormat("%d layers gathered · %s parameters · %g B", layers, CountText(layer),
                             bytes);
    });
    ledger_.Add(group, "gathered embeddings", ends * bytes, [&] {
      return absl::StrFormat(
          "%s parameters of embedding and head, gathered for the whole pass · "
          "%g B",
          CountText(ends), bytes);
    });
  }
  if (w_.adapter && w_.bytes.frozen < bytes) {
    double packed = largest_.dense.packed + largest_.experts.packed;
    ledger_.Add(group, "unpacked matrices", packed * bytes, [&] {
      return absl::StrFormat("a layer's %s numbers unpacked · %g B", CountText(packed), bytes);
    });
  }
  if (w_.precision == Precision::kFp8 || w_.precision == Precision::kMxfp8) {
    // Transformer Engine keeps both layouts of a quantised weight between micro-batches.
    double numbers = (p_.accumulates ? held_.Sum() - ends_.Sum() : largest_.Sum());
    ledger_.Add(group, "8-bit weights", numbers * 2, [&] {
      return absl::StrFormat("%s parameters quantised, row- and column-wise · 2 · 1 B",
                             CountText(numbers));
    });
  }
}

double StageCounter::Reduced(const HeldNumbers& held) const {
  // Gradients of looked-up tables are rows; they are added where the tables lie.
  double tables = w_.adapter ? 0 : held.tables;
  return (p_.dense_shards > 1 ? held.dense.trained - tables : 0) +
         (p_.expert_shards > 1 ? held.experts.trained : 0);
}

void StageCounter::Gradients() {
  auto group = &RankMemory::gradients;
  // A rank alone leaves them as its kernels write them: nothing is reduced.
  double bytes = OnCpu(w_) && w_.dims.world() == 1 ? std::min(w_.bytes.gradient, w_.bytes.parameter)
                                                   : w_.bytes.gradient;
  bool sharded = p_.dense_shards > 1 || p_.expert_shards > 1;
  if (!sharded || (w_.keeps_full_gradients && p_.accumulates)) {
    double tables = w_.adapter ? 0 : held_.tables;
    double numbers = held_.Trained() - tables + tables / p_.dense_shards;
    ledger_.Add(group, "gradients", numbers * bytes, [&] {
      return absl::StrFormat("%s · %g B%s", Numbers(numbers, "trained numbers"), bytes,
                             sharded ? ", whole until the last micro-batch" : "");
    });
    if (w_.gradient_buckets && w_.dims.dp() > 1) {
      ledger_.Add(group, "gradient buckets", numbers * bytes, [&] {
        return absl::StrFormat("%s numbers in buckets beside them · %g B", CountText(numbers),
                               bytes);
      });
    }
  } else {
    ledger_.Add(group, "gradients", Shard(&Pool::trained) * bytes, [&] {
      return absl::StrCat(Numbers(held_.Trained(), "trained numbers"),
                          absl::StrFormat(" · %g B", bytes), Shards());
    });
  }
}

void StageCounter::Optimizer() {
  auto group = &RankMemory::optimizer;
  auto add = [&](const char* name, double bytes) {
    ledger_.Add(group, name, Shard(&Pool::trained) * bytes, [&] {
      return absl::StrCat(Numbers(held_.Trained(), "trained numbers"),
                          absl::StrFormat(" · %g B", bytes), Shards());
    });
  };
  add("master weights", w_.bytes.master);
  add("first moments", w_.bytes.moment1);
  add("second moments", w_.bytes.moment2);
}

}  // namespace am::plan
