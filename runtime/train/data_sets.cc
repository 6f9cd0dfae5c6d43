#include "runtime/train/data_sets.h"

#include <set>

#include "runtime/data/image_samples.h"

namespace modular {

std::vector<std::string> DataSet::image_classes() const {
  std::vector<DataFile> all = files.training;
  all.insert(all.end(), files.held_out.begin(), files.held_out.end());
  return modular::image_classes(all);
}

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
