#include "controller/schedule/schedule.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/schedule/free_slots.h"

namespace am::controller {
namespace {

int Slots(const Demand& demand) { return demand.nodes * demand.ranks_per_node; }

const char* SlotName(const Demand& demand) { return demand.gpus ? "GPU" : "CPU slot"; }

std::string Needs(const Demand& demand) {
  std::string text = absl::StrCat("needs ", demand.nodes, demand.nodes == 1 ? " node" : " nodes",
                                  " with ", demand.ranks_per_node, " free ", SlotName(demand),
                                  demand.ranks_per_node == 1 ? "" : "s");
  if (demand.segment_nodes > 1) {
    absl::StrAppend(&text, ", each ", demand.segment_nodes, " in one NVLink domain");
  }
  return text;
}

// One pass over the queue. A head that has to wait gets the place it will have (its reservation):
// nobody behind it may be there when its time comes.
class Pass {
 public:
  explicit Pass(const QueueView& view) : view_(view), free_(view.nodes) {
    for (const RunningJob& job : view.running) {
      free_.Take(job.demand, job.placement);
      Use& use = uses_[job.user];
      use.slots += Slots(job.demand);
      ++use.jobs;
    }
  }

  Verdict Run() {
    for (const WaitingJob& job : view_.waiting) {
      std::string why = WhyNotEligible(job);
      if (why.empty()) {
        left_.push_back(&job);
      } else {
        verdict_.why_waiting[job.id] = std::move(why);
      }
    }
    // Shares change as jobs are placed, so the next is looked for each time.
    while (!left_.empty()) {
      auto next = std::ranges::min_element(left_, [this](const WaitingJob* a, const WaitingJob* b) {
        return Before(*a, *b, uses_);
      });
      const WaitingJob& job = **next;
      left_.erase(next);
      if (std::string why = OverQuota(job); !why.empty()) {
        verdict_.why_waiting[job.id] = std::move(why);
      } else {
        Consider(job);
      }
    }
    return std::move(verdict_);
  }

 private:
  struct Use {
    int slots = 0;
    int jobs = 0;
  };
  using Uses = std::map<std::string, Use>;
  struct Reservation {
    std::string id;
    Demand demand;
    Placement placement;
    std::optional<TimePoint> from;  // nothing: not known when
  };

  std::string WhyNotEligible(const WaitingJob& job) const {
    if (!job.waits_for.empty()) {
      return absl::StrCat("begins after ", absl::StrJoin(job.waits_for, ", "));
    }
    if (job.not_before && *job.not_before > view_.now) {
      auto wait = std::chrono::ceil<std::chrono::seconds>(*job.not_before - view_.now);
      return absl::StrCat("begins again in ", wait.count(), " s");
    }
    return "";
  }

  static bool Before(const WaitingJob& a, const WaitingJob& b, Uses& uses) {
    if (a.priority != b.priority) return a.priority > b.priority;
    int share_a = uses[a.user].slots, share_b = uses[b.user].slots;
    if (share_a != share_b) return share_a < share_b;
    if (a.submitted != b.submitted) return a.submitted < b.submitted;
    return a.id < b.id;
  }

  std::string OverQuota(const WaitingJob& job) {
    auto quota = view_.quotas.find(job.user);
    if (quota == view_.quotas.end()) quota = view_.quotas.find("");
    if (quota == view_.quotas.end()) return "";
    const auto& [max_slots, max_jobs] = quota->second;
    const Use& use = uses_[job.user];
    if (max_jobs > 0 && use.jobs >= max_jobs) {
      return absl::StrCat(job.user, " has ", use.jobs, " of ", max_jobs, " jobs running");
    }
    if (max_slots > 0 && use.slots + Slots(job.demand) > max_slots) {
      return absl::StrCat(job.user, " has ", use.slots, " of ", max_slots, " slots and this takes ",
                          Slots(job.demand));
    }
    return "";
  }

  void Consider(const WaitingJob& job) {
    std::optional<Placement> place = PlaceBeside(job);
    if (place) {
      free_.Take(job.demand, *place);
      Use& use = uses_[job.user];
      use.slots += Slots(job.demand);
      ++use.jobs;
      verdict_.placed.push_back({job.id, std::move(*place)});
      return;
    }
    std::string why = absl::StrCat(Needs(job.demand), "; ", free_.NodesWithRoom(job.demand), " ",
                                   free_.NodesWithRoom(job.demand) == 1 ? "has" : "have", " them");
    if (free_.Place(job.demand)) {  // it would fit, but for those before it
      std::vector<std::string> heads;
      for (const Reservation& head : reservations_) heads.push_back(head.id);
      why = absl::StrCat("would fit, but ", absl::StrJoin(heads, ", "),
                         heads.size() == 1 ? " is" : " are", " to start there first");
    } else {
      Reserve(job, why);
    }
    verdict_.why_waiting[job.id] = std::move(why);
  }

  // Beside every reservation, or done before it begins.
  std::optional<Placement> PlaceBeside(const WaitingJob& job) {
    std::vector<const Reservation*> kept;
    for (const Reservation& head : reservations_) {
      bool ends_before = head.from && job.time_limit && view_.now + *job.time_limit <= *head.from;
      if (!ends_before) kept.push_back(&head);
    }
    FreeSlots free = free_;
    for (const Reservation* head : kept) free.Take(head->demand, head->placement);
    return free.Place(job.demand);
  }

  // Where and when a job that does not fit now will start: running jobs end in the order in which
  // they must, and lower ones make room where that is allowed.
  void Reserve(const WaitingJob& job, std::string& why) {
    FreeSlots later = free_;
    for (const Reservation& head : reservations_) later.Take(head.demand, head.placement);
    std::vector<const RunningJob*> ending;
    for (const RunningJob& running : view_.running) ending.push_back(&running);
    auto end = [&](const RunningJob* running) {
      if (running->stopping || preempted_.contains(running->id)) return view_.now;
      return running->ends_by.value_or(TimePoint::max());
    };
    std::ranges::stable_sort(ending, {}, end);
    bool asked = false;
    for (const RunningJob* running : ending) {
      bool soon = end(running) <= view_.now;
      if (!soon && !std::exchange(asked, true) && Preempt(job, later, why)) return;
      later.GiveBack(running->demand, running->placement);
      std::optional<Placement> place = later.Place(job.demand);
      if (!place) continue;
      Reservation head{job.id, job.demand, std::move(*place), std::nullopt};
      if (end(running) != TimePoint::max()) head.from = end(running);
      if (soon) absl::StrAppend(&why, "; they are being freed for it");
      reservations_.push_back(std::move(head));
      return;
    }
  }

  // The cheapest running jobs of lower priority whose room is enough together with `free`: the
  // lowest first, of those the youngest; then those that were not needed after all are spared. For
  // the first head alone: where another is to start before it, its place may still change, and the
  // same victims would be asked again and again. So they would where somebody else comes first once
  // a victim's user has the smaller share.
  bool Preempt(const WaitingJob& job, const FreeSlots& free, std::string& why) {
    if (!view_.may_preempt || !reservations_.empty()) return false;
    std::vector<const RunningJob*> victims;
    for (const RunningJob& running : view_.running) {
      if (running.priority < job.priority && !running.stopping &&
          !preempted_.contains(running.id) && running.demand.gpus == job.demand.gpus) {
        victims.push_back(&running);
      }
    }
    std::ranges::stable_sort(victims, [](const RunningJob* a, const RunningJob* b) {
      return a->priority != b->priority ? a->priority < b->priority : a->started > b->started;
    });
    FreeSlots room = free;
    size_t count = 0;
    std::optional<Placement> place;
    while (!place && count < victims.size()) {
      room.GiveBack(victims[count]->demand, victims[count]->placement);
      ++count;
      place = room.Place(job.demand);
    }
    if (!place) return false;
    victims.resize(count);
    for (size_t i = count; i-- > 0;) {
      FreeSlots without = room;
      without.Take(victims[i]->demand, victims[i]->placement);
      if (std::optional<Placement> enough = without.Place(job.demand)) {
        room = std::move(without);
        place = std::move(enough);
        victims.erase(victims.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    Uses after = uses_;
    for (const RunningJob* victim : victims) after[victim->user].slots -= Slots(victim->demand);
    bool stays_first = std::ranges::none_of(
        left_, [&](const WaitingJob* other) { return Before(*other, job, after); });
    if (!stays_first) return false;
    std::vector<std::string> names;
    for (const RunningJob* victim : victims) {
      preempted_.insert(victim->id);
      names.push_back(victim->id);
      verdict_.preempted.push_back({victim->id, job.id});
    }
    absl::StrAppend(&why, "; ", absl::StrJoin(names, ", "), names.size() == 1 ? " makes" : " make",
                    " room for it");
    reservations_.push_back({job.id, job.demand, std::move(*place), view_.now});
    return true;
  }

  const QueueView& view_;
  FreeSlots free_;
  Uses uses_;
  std::vector<const WaitingJob*> left_;  // not considered yet
  std::vector<Reservation> reservations_;
  std::set<std::string> preempted_;
  Verdict verdict_;
};

}  // namespace

Verdict Schedule(const QueueView& view) { return Pass(view).Run(); }

std::string WhyImpossible(const Demand& demand, const std::vector<NodeView>& nodes) {
  std::vector<NodeView> all = nodes;
  for (NodeView& node : all) node.usable = true;
  FreeSlots empty(all);
  if (empty.Place(demand)) return "";
  int most = 0;
  for (const NodeView& node : all) most = std::max(most, demand.gpus ? node.gpus : node.cpu_slots);
  std::string needs = absl::StrCat(demand.nodes, demand.nodes == 1 ? " node" : " nodes", " with ",
                                   demand.ranks_per_node, " ", SlotName(demand),
                                   demand.ranks_per_node == 1 ? "" : "s");
  if (most < demand.ranks_per_node) {
    return absl::StrCat("needs ", needs, ", but no node has more than ", most);
  }
  int with_room = empty.NodesWithRoom(demand);
  if (with_room < demand.nodes) {
    return absl::StrCat("needs ", needs, ", but the cluster has ", with_room, " such ",
                        with_room == 1 ? "node" : "nodes");
  }
  return absl::StrCat("needs ", needs, " in segments of ", demand.segment_nodes,
                      " nodes of one NVLink domain, which the domains of this cluster do not hold");
}

}  // namespace am::controller
