#include "runtime/advise/layout.h"

#include <fmt/format.h>

#include <utility>

namespace modular {

std::string Layout::describe() const {
  std::string text;
  const std::pair<const char*, int64_t> axes[] = {
      {"pp", pp}, {"dp_replicate", dp_replicate}, {"dp_shard", dp_shard}, {"tp", tp}};
  for (const auto& [name, size] : axes) {
    if (size == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, size);
    if (std::string_view(name) == "dp_shard") text += fmt::format(" (ZeRO {})", zero_stage);
  }
  return text.empty() ? "1 device" : text;
}

}  // namespace modular
