#include "runtime/search/shared_machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "runtime/config/config.h"

namespace modular {

std::vector<std::string> assign_gpus(int64_t gpus, const std::string& visible, int64_t ranks, int64_t workers) {
  if (gpus < ranks * workers)
    throw ConfigError(
        fmt::format("--workers {} with {} each need {} GPUs, and this machine has {}: start fewer, or set train.device "
                    "to cpu",
                    workers, ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), ranks * workers, gpus));
  std::vector<std::string> names;
  std::istringstream in(visible);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  for (auto i = static_cast<int64_t>(names.size()); i < gpus; ++i) names.push_back(std::to_string(i));
  std::vector<std::string> trials;
  for (auto first = names.begin(); static_cast<int64_t>(trials.size()) < workers; first += ranks)
    trials.push_back(fmt::format("{}", fmt::join(first, first + ranks, ",")));
  return trials;
}

}  // namespace modular
