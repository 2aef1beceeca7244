#include "launcher/plan/parallel_dims.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "launcher/plan/arithmetic.h"

namespace am::plan {
namespace {

// The recipe's degrees as they stand: absent, null and what is below 1 count as 1; dp as 0, to be
// derived.
struct Wanted {
  std::string section;
  int64_t tp = 1, cp = 1, pp = 1, ep = 1, replicate = 1, dp = 0;

  int64_t others() const { return tp * cp * pp; }
  std::string Key(std::string_view name) const {
    return absl::StrCat(section, ".", std::string(name));
  }
};

Wanted Read(const recipe::Recipe& recipe) {
  Wanted wanted;
  // Diffusion recipes keep the degrees in a section called fsdp.
  wanted.section = recipe.Has("fsdp") && !recipe.Has("distributed") ? "fsdp" : "distributed";
  auto degree = [&](std::string_view name) {
    return std::clamp<int64_t>(recipe.OptInt(wanted.Key(name)).value_or(1), 1, 1 << 20);
  };
  wanted.tp = degree("tp_size");
  wanted.cp = degree("cp_size");
  wanted.pp = degree("pp_size");
  wanted.ep = degree("ep_size");
  wanted.replicate = degree("dp_replicate_size");
  wanted.dp = std::clamp<int64_t>(recipe.OptInt(wanted.Key("dp_size")).value_or(0), 0, 1 << 20);
  return wanted;
}

std::string Product(const Wanted& w) {
  return absl::StrCat("tp ", w.tp, " · cp ", w.cp, " · pp ", w.pp, " = ", w.others());
}

// The degree that cannot be met: the largest of those that are not 1.
std::string LargestDegree(const Wanted& w) {
  if (w.tp >= w.cp && w.tp >= w.pp) return "tp_size";
  return w.cp >= w.pp ? "cp_size" : "pp_size";
}

bool CheckDdp(const recipe::Recipe& recipe, const Wanted& w, recipe::Diagnostics& out) {
  bool fine = true;
  for (auto [name, degree] :
       {std::pair{"tp_size", w.tp}, std::pair{"cp_size", w.cp}, std::pair{"pp_size", w.pp},
        std::pair{"ep_size", w.ep}, std::pair{"dp_replicate_size", w.replicate}}) {
    if (degree == 1) continue;
    recipe.Error(out, w.Key(name),
                 absl::StrCat(degree, " with strategy ddp, which copies the model to every rank"),
                 "use 1, or strategy: fsdp2");
    fine = false;
  }
  return fine;
}

// dp where it is given, else what is left; nothing where it does not come out.
std::optional<int64_t> DeriveDp(const recipe::Recipe& recipe, const Wanted& w, int64_t world,
                                recipe::Diagnostics& out) {
  if (world % w.others() != 0) {
    std::string name = LargestDegree(w);
    int64_t degree = name == "tp_size" ? w.tp : name == "cp_size" ? w.cp : w.pp;
    int64_t rest = w.others() / degree;
    std::vector<int64_t> legal;
    if (world % rest == 0) legal = DivisorsOf(world / rest);
    recipe.Error(
        out, w.Key(name),
        absl::StrCat(degree, " does not fit: ", world, " ranks cannot be divided by ", Product(w)),
        legal.empty()
            ? absl::StrCat("use a multiple of ", w.others(), " ranks")
            : absl::StrCat("use ", OrList(legal), ", or a multiple of ", w.others(), " ranks"));
    return std::nullopt;
  }
  int64_t left = world / w.others();
  if (w.dp == 0 || w.dp == left) return left;
  recipe.Error(out, w.Key("dp_size"),
               absl::StrCat("dp ", w.dp, " · tp ", w.tp, " · cp ", w.cp, " · pp ", w.pp, " = ",
                            w.dp * w.others(), " ranks, but there are ", world),
               absl::StrCat("use ", left, ", or null to derive it"));
  return std::nullopt;
}

bool CheckReplicate(const recipe::Recipe& recipe, const Wanted& w, int64_t dp,
                    const std::string& strategy, recipe::Diagnostics& out) {
  if (w.replicate == 1) return true;
  if (strategy != "fsdp2") {
    recipe.Error(out, w.Key("dp_replicate_size"),
                 absl::StrCat(w.replicate, " needs strategy fsdp2, not ", strategy), "use 1");
    return false;
  }
  std::vector<int64_t> legal = DivisorsOf(dp);
  if (legal.size() > 1) legal.pop_back();
  if (dp % w.replicate != 0) {
    recipe.Error(out, w.Key("dp_replicate_size"),
                 absl::StrCat(w.replicate, " does not divide dp_size ", dp),
                 absl::StrCat("use ", OrList(legal)));
    return false;
  }
  if (w.replicate == dp) {
    recipe.Error(out, w.Key("dp_replicate_size"),
                 absl::StrCat(w.replicate, " leaves nothing to shard: dp_size is ", dp),
                 absl::StrCat("use ", OrList(legal), ", or strategy: ddp"));
    return false;
  }
  return true;
}

bool CheckExperts(const recipe::Recipe& recipe, const Wanted& w, int64_t dp,
                  recipe::Diagnostics& out) {
  if (w.ep == 1 || (dp * w.cp) % w.ep == 0) return true;
  recipe.Error(out, w.Key("ep_size"),
               absl::StrCat(w.ep, " does not divide dp ", dp, " · cp ", w.cp, " = ", dp * w.cp),
               absl::StrCat("use ", OrList(DivisorsOf(dp * w.cp))));
  return false;
}

}  // namespace

std::optional<ParallelDims> DeriveDims(const recipe::Recipe& recipe, int world_size,
                                       recipe::Diagnostics& out) {
  Wanted w = Read(recipe);
  for (const char* name :
       {"strategy", "tp_size", "cp_size", "pp_size", "ep_size", "dp_size", "dp_replicate_size"}) {
    if (IsBroken(recipe.root(), w.Key(name))) return std::nullopt;
  }
  std::string strategy = recipe.String("distributed.strategy");
  if (strategy == "ddp" && !CheckDdp(recipe, w, out)) return std::nullopt;
  std::optional<int64_t> dp = DeriveDp(recipe, w, world_size, out);
  if (!dp) return std::nullopt;
  bool fine = CheckReplicate(recipe, w, *dp, strategy, out);
  fine = CheckExperts(recipe, w, *dp, out) && fine;
  if (!fine) return std::nullopt;
  ParallelDims dims{.pp = static_cast<int>(w.pp),
                    .dp_replicate = static_cast<int>(w.replicate),
                    .dp_shard = static_cast<int>(*dp / w.replicate),
                    .cp = static_cast<int>(w.cp),
                    .tp = static_cast<int>(w.tp),
                    .ep = static_cast<int>(w.ep)};
  return dims;
}

int SmallestWorld(const recipe::Recipe& recipe) {
  Wanted w = Read(recipe);
  // The least dp with (dp · cp) % ep == 0 and dp % replicate == 0, above replicate.
  int64_t dp = w.dp;
  if (dp == 0) {
    int64_t by_experts = w.ep / std::gcd(w.ep, w.cp);
    dp = std::lcm(by_experts, w.replicate);
    if (w.replicate > 1 && dp == w.replicate) dp *= 2;
  }
  return static_cast<int>(std::min<int64_t>(dp * w.others(), 1 << 24));
}

}  // namespace am::plan
