#include "runtime/parallel/memory/memory_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {

bool Recomputation::includes_unit(const std::string& path) const {
  if (every == 0) return false;
  int64_t number = 0;  // last number in the path
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = path.find('.', begin);
    std::from_chars(path.data() + begin, path.data() + std::min(end, path.size()), number);
  }
  return number % every == 0;
}

const std::vector<std::string>& recomputed_operations() {
  static const std::vector<std::string> names = {"attention", "norm", "activation"};
  return names;
}

const std::vector<std::string>& offload_names() {
  static const std::vector<std::string> names = {"optimizer", "parameters", "activations"};
  return names;
}

Offload to_offload(const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
  Offload offload;
  offload.parameters = has("parameters");
  offload.optimizer = offload.parameters || has("optimizer");
  offload.activations = has("activations");
  return offload;
}

std::pair<std::string, std::string> memory_error(const Entry& entry, const AnyConfig& config,
                                                 const std::vector<std::string>& units, const Recomputation& recompute,
                                                 const Offload& offload) {
  for (const std::string& name : recompute.operations)
    if (std::ranges::find(recomputed_operations(), name) == recomputed_operations().end())
      return {"parallel.recompute", fmt::format("parallel.recompute has no operation \"{}\": it must be \"none\" or "
                                                "\"full\", an integer without quotes, or "
                                                "an array of some of {}",
                                                name, fmt::join(recomputed_operations(), ", "))};
  const auto is_name = [](const std::string& name) { return name != "*"; };
  if (std::ranges::any_of(units, is_name)) {  // without class names no model has to be built
    const Model model = build_on_meta(entry, config);
    std::set<std::string> known;
    for (const ModelUnit& unit : parameter_table(*model.module, *entry.plan, config, /*stages=*/{}).units)
      if (!unit.name.empty()) known.insert(class_name(*unit.module));
    for (const std::string& name : units)
      if (is_name(name) && !known.contains(name))
        return {"parallel.units",
                fmt::format(
                    "parallel.units: {} has no unit class \"{}\"; its unit classes are {}, and [\"*\"] is all of them",
                    entry.architecture, name, known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")))};
  }
  if (!units.empty()) return {};
  if (recompute.every > 0)
    return {
        "parallel.recompute",
        "parallel.recompute recomputes units, but parallel.units is []: name unit classes, or operations to recompute"};
  if (offload.activations)
    return {"parallel.offload",
            "parallel.offload offloads activations of units, but parallel.units is []: name unit classes"};
  return {};
}

}  // namespace modular
