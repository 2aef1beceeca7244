// Any bytes as a host list: names or an error with its place, in bounded time and memory; and names
// survive being compressed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "launcher/plan/host_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::plan;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  HostList list = ExpandHostList(text);
  if (list.error) {
    if (list.error->offset > size || !list.hosts.empty()) std::abort();
    RenderHostListError(text, *list.error);
    return 0;
  }
  if (list.hosts.size() > kMostHosts) std::abort();
  HostList again = ExpandHostList(CompressHostList(list.hosts));
  if (again.error || again.hosts != list.hosts) std::abort();
  return 0;
}
