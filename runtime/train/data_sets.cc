#include "runtime/train/data_sets.h"

#include <set>

namespace modular {

std::vector<DataSet> find_data_sets(const RunConfig& config) {
  return {{.options = config.data, .files = find_data_files(config.data)}};
}

DataFiles files_of(const std::vector<DataSet>& sets) {
  DataFiles all;
  std::set<std::filesystem::path> seen;
  const auto add = [&](const std::vector<DataFile>& files, std::vector<DataFile>& to) {
    for (const DataFile& file : files)
      if (seen.insert(file.path).second) to.push_back(file);
  };
  for (const DataSet& set : sets) add(set.files.training, all.training), add(set.files.held_out, all.held_out);
  return all;
}

}  // namespace modular
