// FreeSlots: which slots of which nodes nobody has, and the best place for a gang among them. The
// scheduler's working copy: taken and given back while it thinks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/job/placement.h"
#include "controller/schedule/schedule.h"

namespace am::controller {

class FreeSlots {
 public:
  explicit FreeSlots(const std::vector<NodeView>& nodes);

  void Take(const Demand& demand, const Placement& placement);
  void GiveBack(const Demand& demand, const Placement& placement);

  // The tightest place: whole segments in one NVLink domain, the job in as few domains as can be,
  // in those and on those nodes that it leaves the least of. Nothing where it does not fit.
  std::optional<Placement> Place(const Demand& demand) const;

  // Nodes that have `ranks_per_node` slots free.
  int NodesWithRoom(const Demand& demand) const;

 private:
  struct Node {
    std::string name;
    std::vector<bool> gpus;  // free
    std::vector<bool> cpus;
    int free_gpus = 0;
    int free_cpus = 0;
    int Free(bool on_gpus) const { return on_gpus ? free_gpus : free_cpus; }
  };
  void Set(const Demand& demand, const Placement& placement, bool free);

  std::map<std::string, std::vector<Node>> domains_;
  std::map<std::string, std::pair<std::string, size_t>> places_;  // node → domain, index
};

}  // namespace am::controller
