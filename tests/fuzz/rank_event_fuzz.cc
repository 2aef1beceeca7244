// Whatever a rank writes on its event descriptor, the agent must live: lines are cut, parsed, shown
// and written again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "worker/rank_io/rank_event.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view line(reinterpret_cast<const char*>(data), size);
  if (std::optional<am::RankEvent> event = am::ParseRankEvent(line)) {
    am::LogLine(*event);
    std::optional<am::RankEvent> again = am::ParseRankEvent(am::ToLine(*event));
    if (!again || again->type != event->type || again->seq != event->seq) std::abort();
  }
  if (std::optional<am::ControlMessage> message = am::ParseControlMessage(line)) {
    if (!am::ParseControlMessage(am::ToLine(*message))) std::abort();
  }
  return 0;
}
