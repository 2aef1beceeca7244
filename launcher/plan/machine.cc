#include "launcher/plan/machine.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace am::plan {
namespace {

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

double MemoryGib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kib = 0;
  while (file >> name >> kib) {
    if (name == "MemTotal:") return kib / (1 << 20);
    file.ignore(256, '\n');
  }
  return 0;
}

// /proc/driver/nvidia/gpus/<bus>/information, a line "Model: \t\t NVIDIA H100 80GB HBM3".
std::vector<Machine::Gpu> Gpus() {
  namespace fs = std::filesystem;
  std::vector<Machine::Gpu> gpus;
  std::error_code error;
  for (fs::directory_iterator entry("/proc/driver/nvidia/gpus", error), end; !error && entry != end;
       entry.increment(error)) {
    std::ifstream file(entry->path() / "information");
    Machine::Gpu gpu{.name = "GPU"};
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("Model:")) continue;
      size_t at = line.find_first_not_of(" \t", 6);
      if (at != std::string::npos) gpu.name = line.substr(at);
    }
    gpus.push_back(gpu);
  }
  // In a container the devices given to it count, not the host's list.
  size_t devices = 0;
  for (fs::directory_iterator entry("/dev", error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    bool numbered = name.size() > 6 && name.starts_with("nvidia") &&
                    name.find_first_not_of("0123456789", 6) == std::string::npos;
    devices += numbered ? 1 : 0;
  }
  gpus.resize(devices, gpus.empty() ? Machine::Gpu{.name = "GPU"} : gpus.front());
  return gpus;
}

}  // namespace

Machine ProbeMachine() {
  return {.cores = UsableCores(), .memory_gib = MemoryGib(), .gpus = Gpus()};
}

}  // namespace am::plan
