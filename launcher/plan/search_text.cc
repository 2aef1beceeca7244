// What a search found, for people and for programs.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "launcher/plan/search.h"
#include "launcher/plan/text_table.h"

namespace am::plan {
namespace {

std::vector<std::string> Row(const Proposal& p, std::string name) {
  const LayoutChoice& c = p.choice;
  return {std::move(name),
          std::to_string(c.tp),
          std::to_string(c.cp),
          std::to_string(c.pp),
          c.pp > 1 ? std::to_string(c.virtual_stages) : "-",
          std::to_string(c.ep),
          std::to_string(c.dp_replicate),
          c.pp > 1 ? absl::StrCat(c.local_batch_size, "/", c.micro_batch_size)
                   : std::to_string(c.local_batch_size),
          std::string(Name(c.recompute)),
          Duration(p.step_time_s),
          ThreeDigits(p.memory_gib),
          p.verdict};
}

nlohmann::json ProposalJson(const Proposal& p) {
  const LayoutChoice& c = p.choice;
  return {{"strategy", c.strategy},
          {"tp_size", c.tp},
          {"cp_size", c.cp},
          {"pp_size", c.pp},
          {"virtual_stages", c.pp > 1 ? nlohmann::json(c.virtual_stages) : nlohmann::json()},
          {"ep_size", c.ep},
          {"dp_replicate", c.dp_replicate},
          {"local_batch_size", c.local_batch_size},
          {"micro_batch_size", c.pp > 1 ? c.micro_batch_size : c.local_batch_size},
          {"activation_checkpointing", Name(c.recompute)},
          {"overrides", p.overrides},
          {"predicted_step_time_s", p.step_time_s},
          {"predicted_tokens_per_s", p.tokens_per_s},
          {"memory_gib", p.memory_gib},
          {"limit_gib", p.limit_gib > 0 ? nlohmann::json(p.limit_gib) : nlohmann::json()},
          {"fits", p.fits},
          {"verdict", p.verdict}};
}

}  // namespace

std::string ToText(const SearchResult& found) {
  std::string out = "\nSearch\n";
  if (found.tried > 0) {
    out +=
        Wrapped(absl::StrFormat("%s layouts tried, %s of them legal, %s fit", Grouped(found.tried),
                                Grouped(found.legal), Grouped(found.fitting)));
  }
  if (!found.note.empty()) out += Wrapped(found.note);
  TextTable table(
      {"<", "tp", "cp", "pp", "vp", "ep", "rep", "batch", "<recompute", "step", "GiB", "<verdict"});
  if (found.own) table.Row(Row(*found.own, "recipe"));
  if (found.best) table.Row(Row(*found.best, "best"));
  for (const Proposal& other : found.others) table.Row(Row(other, ""));
  if (!table.empty()) out += table.Text();
  if (!found.best) return out;
  if (found.best->overrides.empty()) return out + "\n  The recipe's own layout is the fastest.\n";
  out += "\nTo take the best\n";
  return out + Wrapped(absl::StrJoin(found.best->overrides, " "));
}

nlohmann::json ToJson(const SearchResult& found) {
  nlohmann::json others = nlohmann::json::array();
  for (const Proposal& other : found.others) others.push_back(ProposalJson(other));
  return {{"tried", found.tried},
          {"legal", found.legal},
          {"fitting", found.fitting},
          {"note", found.note.empty() ? nlohmann::json() : nlohmann::json(found.note)},
          {"recipe", found.own ? ProposalJson(*found.own) : nlohmann::json()},
          {"best", found.best ? ProposalJson(*found.best) : nlohmann::json()},
          {"others", others}};
}

}  // namespace am::plan
