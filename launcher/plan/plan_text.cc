// A plan as a page, for people: what is where, what it takes, why, and what to mind.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

#include "launcher/plan/plan.h"
#include "launcher/plan/text_table.h"

namespace am::plan {
namespace {

constexpr size_t kMostRows = 16;  // of a table
constexpr size_t kBarWidth = 60;

std::string Plural(int64_t count, const std::string& noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string Title(const Plan& plan) {
  const Estimates& e = plan.estimates;
  std::string out = absl::StrCat(
      plan.model.empty() ? "a model without a name" : plan.model, " on ", plan.cluster, ": ",
      Plural(plan.nodes, "node"), " of ",
      plan.on_gpus ? Plural(plan.ranks_per_node, plan.node.gpu.empty() ? "GPU" : plan.node.gpu)
                   : Plural(plan.ranks_per_node, "CPU rank"),
      ", ", Plural(plan.dims.world(), "rank"), ", ", plan.strategy);
  out = Wrapped(out, "");
  if (!e.parameters) return out;
  std::string model = absl::StrCat(Scaled(static_cast<double>(*e.parameters)), " parameters");
  if (*e.active_parameters != *e.parameters) {
    absl::StrAppend(&model, ", ", Scaled(static_cast<double>(*e.active_parameters)), " a token");
  }
  absl::StrAppend(&model, ", ", e.shape->layers.size(), " layers, ",
                  std::string(Name(e.workload->precision)));
  if (e.workload->adapter) {
    absl::StrAppend(&model, ", LoRA of rank ", e.workload->adapter->rank, " on ",
                    Plural(static_cast<int64_t>(e.workload->adapter->modules.size()), "module"),
                    " a layer");
  }
  return out + Wrapped(model, "");
}

std::string Axes(const Plan& plan) {
  TextTable table({"<axis", "size", "groups", "<link", "GB/s", "<"});
  for (const PlannedAxis& axis : plan.axes) {
    if (axis.size == 1) continue;
    std::string note;
    if (axis.groups_cut > 0 && plan.node.has_nvlink()) {
      note =
          absl::StrFormat("%d of %d groups leave an NVLink domain", axis.groups_cut, axis.groups);
    }
    table.Row({std::string(Name(axis.axis)), std::to_string(axis.size), std::to_string(axis.groups),
               axis.fabric, axis.gb_per_s > 0 ? ThreeDigits(axis.gb_per_s) : "", note});
  }
  std::string out = "\nLayout\n";
  if (table.empty()) return out + "  a single rank\n";
  out += table.Text();
  std::string ones;
  for (const PlannedAxis& axis : plan.axes) {
    if (axis.size == 1) {
      absl::StrAppend(&ones, ones.empty() ? "" : ", ", std::string(Name(axis.axis)));
    }
  }
  if (!ones.empty()) absl::StrAppend(&out, "  size 1: ", ones, "\n");
  if (plan.segment_nodes > 1) {
    absl::StrAppend(&out, "  ask Slurm for --segment=", plan.segment_nodes, "\n");
  }
  return out;
}

std::string Stages(const Plan& plan) {
  if (plan.dims.pp == 1 || plan.layers_of_stage.empty()) return "";
  TextTable table({"pp", "<layers", "parameters", "a rank keeps"});
  for (int pp = 0; pp < plan.dims.pp; ++pp) {
    std::string layers;
    int from = 0;
    for (size_t stage = 0; stage < plan.layers_of_stage.size(); ++stage) {
      int count = plan.layers_of_stage[stage];
      if (static_cast<int>(stage) % plan.dims.pp == pp && count > 0) {
        absl::StrAppend(&layers, layers.empty() ? "" : ", ", from);
        if (count > 1) absl::StrAppend(&layers, "-", from + count - 1);
      }
      from += count;
    }
    std::string whole, kept;
    if (static_cast<size_t>(pp) < plan.estimates.parameters_of_stage.size()) {
      whole = Scaled(plan.estimates.parameters_of_stage[static_cast<size_t>(pp)]);
      kept = Scaled(plan.estimates.parameters_of_rank[static_cast<size_t>(pp)]);
    }
    table.Row({std::to_string(pp), layers, whole, kept});
  }
  return "\nStages\n" + table.Text();
}

std::string Span(int least, int most) {
  return least == most ? std::to_string(least) : absl::StrCat(least, "-", most);
}

// Ranks in equal runs: a node each while those are few, else as many nodes as make few rows.
std::string RankMap(const Plan& plan) {
  size_t run = static_cast<size_t>(plan.ranks_per_node);
  size_t stage = plan.ranks.size() / static_cast<size_t>(plan.dims.pp);
  if (plan.ranks.size() / run > kMostRows && stage % run == 0) run = stage;
  while (plan.ranks.size() / run > kMostRows) run *= 2;
  constexpr int MeshPlace::*kPlaces[] = {
      &MeshPlace::pp, &MeshPlace::dp_replicate, &MeshPlace::dp_shard, &MeshPlace::cp,
      &MeshPlace::tp, &MeshPlace::ep,           &MeshPlace::ep_shard};
  std::vector<std::string> titles = {"ranks", "node", "domain"};
  std::vector<size_t> shown;
  for (size_t axis = 0; axis < plan.axes.size(); ++axis) {
    if (plan.axes[axis].size == 1) continue;
    shown.push_back(axis);
    titles.emplace_back(Name(plan.axes[axis].axis));
  }
  bool hosts = !plan.hosts.empty() && run == static_cast<size_t>(plan.ranks_per_node);
  if (hosts) titles.emplace_back("<host");
  TextTable table(titles);
  for (size_t from = 0; from < plan.ranks.size(); from += run) {
    size_t to = std::min(from + run, plan.ranks.size()) - 1;
    const PlannedRank& first = plan.ranks[from];
    auto span = [&](auto value) {
      int least = value(first), most = least;
      for (size_t i = from; i <= to; ++i) {
        least = std::min(least, value(plan.ranks[i]));
        most = std::max(most, value(plan.ranks[i]));
      }
      return Span(least, most);
    };
    std::vector<std::string> row = {
        Span(first.rank, plan.ranks[to].rank),
        span([](const PlannedRank& rank) { return rank.node; }),
        span([](const PlannedRank& rank) { return rank.nvlink_domain; })};
    for (size_t axis : shown) {
      row.push_back(span([&](const PlannedRank& rank) { return rank.place.*kPlaces[axis]; }));
    }
    if (hosts) row.push_back(plan.hosts[static_cast<size_t>(first.node)]);
    table.Row(std::move(row));
  }
  return "\nRanks\n" + table.Text();
}

std::string BatchText(const Plan& plan) {
  const Batch& batch = plan.batch;
  if (batch.global_batch_size <= 0) return "";
  std::string out = absl::StrFormat("global batch %s = local batch %d · dp %d · %d of accumulation",
                                    Grouped(batch.global_batch_size), batch.local_batch_size,
                                    plan.dims.dp(), batch.grad_acc_steps);
  if (plan.virtual_stages) {
    absl::StrAppend(&out, "; ",
                    batch.local_batch_size / std::max<int64_t>(1, *plan.micro_batch_size),
                    " micro-batches of ", *plan.micro_batch_size, " go through the stages");
  }
  out = "\nBatch\n" + Wrapped(out);
  if (auto tokens = plan.tokens_per_step()) {
    out += Wrapped(absl::StrFormat("tokens a step %s = global batch %s · sequence %s",
                                   Grouped(*tokens), Grouped(batch.global_batch_size),
                                   Grouped(*plan.seq_length)));
  }
  return out;
}

std::string MemoryText(const Plan& plan) {
  const Estimates& e = plan.estimates;
  if (!e.memory) return "";
  const RankMemory& m = e.memory->worst;
  bool whole = e.workload->seq_length > 0;
  std::string out = "\nMemory of the fullest rank";
  if (plan.dims.pp > 1) absl::StrAppend(&out, " (pp ", e.memory->worst_stage, ")");
  out += ", GiB\n";
  struct Part {
    const char* name;
    double gib;
    char mark;
  };
  const Part kParts[] = {{"parameters", m.parameters, 'P'}, {"gradients", m.gradients, 'G'},
                         {"optimizer", m.optimizer, 'O'},   {"activations", m.activations, 'A'},
                         {"buffers", m.buffers, 'B'},       {"overhead", m.overhead, 'x'}};
  std::string parts;
  for (const Part& part : kParts) {
    if (part.gib <= 0) continue;
    absl::StrAppend(&parts, parts.empty() ? "" : "   ", std::string(1, part.mark), " ", part.name,
                    " ", ThreeDigits(part.gib));
  }
  out += Wrapped(parts);
  if (!whole) return out + "  and activations, which the sequence length would tell\n";
  double limit = e.memory->limit, total = m.total();
  double scale = std::max(limit, total);
  std::string bar;
  double upto = 0;
  for (const Part& part : kParts) {
    upto += part.gib;
    size_t end = static_cast<size_t>(upto / scale * kBarWidth + 0.5);
    if (end > bar.size()) bar.append(end - bar.size(), part.mark);
  }
  bar.resize(kBarWidth, '.');
  if (limit > 0 && total > limit) {
    bar.insert(std::min(bar.size(), static_cast<size_t>(limit / scale * kBarWidth + 0.5)), "|");
  }
  absl::StrAppend(&out, "  [", bar, "] ", ThreeDigits(total));
  if (limit > 0) {
    absl::StrAppend(&out, " of ", ThreeDigits(limit),
                    total > limit ? absl::StrFormat(", %.0f %% too much", 100 * (total / limit - 1))
                                  : absl::StrFormat(", %.0f %%", 100 * total / limit));
  }
  absl::StrAppend(&out,
                  "\n  recomputation of activations: ", std::string(Name(e.workload->recompute)),
                  e.workload->recompute_assumed ? " (assumed)" : "", "\n");
  return out;
}

std::string TimeText(const Plan& plan) {
  const Estimates& e = plan.estimates;
  if (!e.step_time) return "";
  const StepTimeEstimate& time = *e.step_time;
  std::string out = absl::StrCat("\nStep time ", Duration(time.seconds));
  if (time.high_seconds > time.low_seconds) {
    absl::StrAppend(&out, " (", Duration(time.low_seconds), " to ", Duration(time.high_seconds),
                    ")");
  }
  out += "\n";
  std::vector<const Term*> terms;
  for (const Term& term : time.terms) terms.push_back(&term);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term* a, const Term* b) { return a->value > b->value; });
  TextTable table({"<part", "time", "share", "<"});
  double rest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    double share = terms[i]->value / time.seconds;
    if (i >= 8 || share < 0.005) {
      rest += terms[i]->value;
      continue;
    }
    table.Row({terms[i]->name, Duration(terms[i]->value), absl::StrFormat("%.1f %%", 100 * share),
               std::string(static_cast<size_t>(share * 40 + 0.5), '#')});
  }
  if (rest > 0) {
    table.Row(
        {"the rest", Duration(rest), absl::StrFormat("%.1f %%", 100 * rest / time.seconds), ""});
  }
  out += table.Text();
  std::string rate = absl::StrCat(ThreeDigits(time.tokens_per_s), " tokens/s");
  if (e.tflops_per_gpu) {
    absl::StrAppend(&rate, ", ", ThreeDigits(*e.tflops_per_gpu), " model TFLOP/s a GPU");
    if (e.mfu) {
      absl::StrAppend(
          &rate, absl::StrFormat(", MFU %.1f %% of %s", 100 * *e.mfu, ThreeDigits(*e.peak_tflops)));
    }
    if (!e.flops_convention.empty()) absl::StrAppend(&rate, " (FLOPs: ", e.flops_convention, ")");
  }
  return out + Wrapped(rate);
}

std::string RunText(const Plan& plan) {
  const Estimates& e = plan.estimates;
  std::string out = "\nThe whole run\n" + Wrapped(e.length.reason);
  if (!e.cost.days) return out;
  std::string cost = absl::StrCat(Duration(*e.cost.days * 86'400), " of training steps");
  if (e.cost.gpu_hours) absl::StrAppend(&cost, ", ", ThreeDigits(*e.cost.gpu_hours), " GPU-hours");
  if (e.cost.price) {
    absl::StrAppend(&cost, ", cost ", ThreeDigits(*e.cost.price));
  } else if (e.cost.gpu_hours) {
    absl::StrAppend(&cost, "; ", e.cost.reason);
  }
  return out + Wrapped(cost);
}

std::string List(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = "\n" + title + "\n";
  for (const std::string& line : lines) out += Wrapped(line, "  - ");
  return out;
}

std::string Warnings(const recipe::Diagnostics& diagnostics) {
  std::vector<std::string> lines;
  for (const recipe::Diagnostic& d : diagnostics) {
    if (d.severity != recipe::Severity::kWarning) continue;
    lines.push_back(absl::StrCat(d.key, d.key.empty() ? "" : ": ", d.message,
                                 d.hint.empty() ? "" : "; ", d.hint));
  }
  return List("Warnings", lines);
}

}  // namespace

std::string ToText(const Plan& plan, const recipe::Diagnostics& diagnostics) {
  return absl::StrCat(Title(plan), Axes(plan), Stages(plan), RankMap(plan), BatchText(plan),
                      MemoryText(plan), TimeText(plan), RunText(plan),
                      List("Not known", plan.estimates.unknown), List("Reasons", plan.reasons),
                      Warnings(diagnostics));
}

std::string Explain(const Plan& plan, std::string_view what) {
  const Estimates& e = plan.estimates;
  std::string out = Title(plan) + "\n";
  auto terms = [&](const std::vector<Term>& list, auto print) {
    double sum = 0;
    for (const Term& term : list) {
      out += Wrapped(absl::StrCat(term.name, " = ", term.formula), print(term.value) + "  ");
      sum += term.value;
    }
    out += print(sum) + "  in all\n";
  };
  auto column = [](const std::string& text) {
    return std::string(DisplayWidth(text) < 12 ? 12 - DisplayWidth(text) : 0, ' ') + text;
  };
  if (what == "layout") {
    out += Axes(plan).substr(1) + Stages(plan) + RankMap(plan) + BatchText(plan);
    return out + List("Reasons", plan.reasons);
  }
  if (what == "memory" && e.memory) {
    absl::StrAppend(&out, "Memory of the fullest rank, GiB\n");
    terms(ExplainMemory(*e.workload),
          [&](double gib) { return column(absl::StrFormat("%.3f GiB", gib)); });
    return out;
  }
  if (what == "time" && e.step_time) {
    absl::StrAppend(&out, "A step, seconds\n");
    terms(e.step_time->terms, [&](double s) { return column(Duration(s)); });
    for (const std::string& note : e.step_time->notes) out += Wrapped(note, "  - ");
    return out;
  }
  return out + List("Not known", e.unknown);
}

}  // namespace am::plan
