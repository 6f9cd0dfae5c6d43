#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"

namespace modular {

void show_entries(const Arguments& arguments) {
  auto list = entries();
  std::ranges::sort(list, {}, &Entry::architecture);
  auto json = nlohmann::ordered_json::array();
  for (const auto& entry : list) {
    if (arguments.json)
      json.push_back({{"architecture", entry.architecture},
                      {"family", entry.family},
                      {"task", entry.task},
                      {"model_type", entry.model_type}});
    else
      print_result("{:<32} {:<16} {}\n", entry.architecture, entry.family, entry.task);
  }
  if (arguments.json) print_data(json.dump(2) + "\n");
}

void show_options(const Arguments& arguments) {
  const bool has_model = !arguments.config.empty() || !arguments.settings.empty();
  auto config = has_model ? read_run_config_for(arguments) : RunConfig{};
  print_result("{}", format_reference(config));
  if (!has_model)
    print_result(
        "  model.config.*                     the model's own keys: see them with `modrun settings --set "
        "model.entry=llama`\n");
}

}  // namespace modular
