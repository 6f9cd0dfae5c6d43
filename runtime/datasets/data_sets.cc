#include "runtime/datasets/data_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/data/image_samples.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

DataSet find_set(const RunConfig& config, const SetOptions& settings, bool trains) {
  DataSet set{settings.name, settings.weight, settings.loss, config.data, {}};
  set.options.paths = settings.paths;
  set.options.format = settings.format.value_or(config.data.format);
  try {
    set.files = find_data_files(set.options, {.held_out = false, .training = trains});
  } catch (const DataError& error) {
    throw DataError(fmt::format("data.sets.{}: {}", set.name, error.what()));
  }
  return set;
}

void check_training_on_validation(const std::vector<DataSet>& sets) {
  std::map<fs::path, std::string> held_out;
  for (const DataSet& set : sets)
    for (const DataFile& file : set.files.held_out) held_out.emplace(file.path, set.name);
  for (const DataSet& set : sets)
    for (const DataFile& file : set.files.training)
      if (const auto found = held_out.find(file.path); found != held_out.end())
        throw DataError(
            fmt::format("{}: data.sets.{} learns from it and data.sets.{} holds it out: hold it out of both",
                        file.path.string(), set.name, found->second));
}

}  // namespace

std::vector<std::string> DataSet::image_classes() const {
  std::vector<DataFile> all = files.training;
  all.insert(all.end(), files.held_out.begin(), files.held_out.end());
  return modular::image_classes(all);
}

std::vector<DataSet> find_data_sets(const RunConfig& config, bool trains) {
  if (config.data.sets.empty()) return {{{}, 1.0, {}, config.data, find_data_files(config.data, {.training = trains})}};
  std::vector<DataSet> sets;
  for (const SetOptions& settings : config.data.sets) sets.push_back(find_set(config, settings, trains));
  const bool asked = config.data.held_out_every > 0 || !config.data.held_out.empty();
  if (asked && std::ranges::none_of(sets, &DataSet::holds_out))
    throw DataError(
        "data.held_out: no file of any set is held out: the patterns match none, or there are fewer than "
        "data.held_out_every files");
  check_training_on_validation(sets);
  return sets;
}

DataFiles get_files(const std::vector<DataSet>& sets) {
  DataFiles all;
  std::set<fs::path> seen;
  const auto add = [&](const std::vector<DataFile>& files, std::vector<DataFile>& to) {
    for (const DataFile& file : files)
      if (seen.insert(file.path).second) to.push_back(file);
  };
  for (const DataSet& set : sets) add(set.files.training, all.training), add(set.files.held_out, all.held_out);
  return all;
}

}  // namespace modular
