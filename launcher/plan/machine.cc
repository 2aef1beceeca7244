#include "launcher/plan/machine.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "launcher/recipe/scalar.h"

namespace am::plan {
namespace {

// A file of this container's own cgroup (version 2); elsewhere it is the root's, which has none.
std::string CgroupFile(const char* name) {
  std::ifstream file(std::string("/sys/fs/cgroup/") + name);
  std::string line;
  std::getline(file, line);
  return line;
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0
                  ? CPU_COUNT(&set)
                  : static_cast<int>(std::thread::hardware_concurrency());
  if (std::optional<double> most = ParseCpuMax(CgroupFile("cpu.max"))) {
    cores = std::min(cores, static_cast<int>(std::ceil(*most)));
  }
  return std::max(1, cores);
}

double MemoryGib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kib = 0;
  while (file >> name >> kib) {
    if (name == "MemTotal:") break;
    file.ignore(256, '\n');
  }
  double gib = kib / (1 << 20), most = 0;
  std::istringstream limit(CgroupFile("memory.max"));
  if (limit >> most && most > 0) gib = std::min(gib, most / (1 << 30));
  return gib;
}

// Of a driver that shows nothing under /proc. It is given a few seconds: a stuck driver must not
// hold a plan.
std::vector<Machine::Gpu> AskNvidiaSmi() {
  FILE* pipe = popen(
      "timeout 5 nvidia-smi --query-gpu=name,memory.total --format=csv,noheader,nounits "
      "2>/dev/null </dev/null",
      "r");
  if (!pipe) return {};
  std::string text(1 << 16, '\0');
  text.resize(fread(text.data(), 1, text.size(), pipe));
  pclose(pipe);
  return ParseNvidiaSmi(text);
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
  if (gpus.empty() && (devices > 0 || fs::exists("/dev/dxg", error))) {
    std::vector<Machine::Gpu> shown = AskNvidiaSmi();
    if (!shown.empty()) return shown;
  }
  gpus.resize(devices, gpus.empty() ? Machine::Gpu{.name = "GPU"} : gpus.front());
  return gpus;
}

}  // namespace

std::vector<Machine::Gpu> ParseNvidiaSmi(std::string_view text) {
  std::vector<Machine::Gpu> gpus;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    size_t comma = line.rfind(", ");
    if (comma == std::string::npos || comma == 0) continue;
    std::optional<double> mib = recipe::ParseFloat(std::string_view(line).substr(comma + 2));
    gpus.push_back({.name = line.substr(0, comma), .memory_gib = mib.value_or(0) / 1024});
  }
  return gpus;
}

std::optional<double> ParseCpuMax(std::string_view text) {
  std::istringstream words{std::string(text)};
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

Machine ProbeMachine() {
  return {.cores = UsableCores(), .memory_gib = MemoryGib(), .gpus = Gpus()};
}

}  // namespace am::plan
