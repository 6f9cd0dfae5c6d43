#include "runtime/datasets/partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/config/printed_command.h"
#include "runtime/files/open_file.h"
#include "runtime/parquet/library.h"
#include "runtime/parquet/repartition.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSources = "sources.manifest";

struct Sizes {
  std::vector<int64_t> files;  // rows of each
  int64_t groups = 0;          // that hold any, of all files
};

Sizes get_sizes(const std::vector<DataFile>& files) {
  Sizes sizes;
  for (const DataFile& file : files) {
    int64_t rows = 0;
    const auto opened = parquet_library().open(file.path.string());
    for (const ParquetGroup& group : opened->groups()) {
      rows += group.rows;
      sizes.groups += group.rows > 0 ? 1 : 0;
    }
    sizes.files.push_back(rows);
  }
  return sizes;
}

fs::path get_folder(const RunConfig& config, const DataSet& set) {
  return fs::path(config.train.dir) / "row-groups" / (set.name.empty() ? "data" : set.name);
}

/// What a folder is of: the files as they were, and the partitions.
std::string describe_sources(const RunConfig& config, const DataSet& set) {
  return fmt::format("{} partitions\n{}", config.data.partitions, format_manifest({set.files.training, {}}));
}

bool is_cut(const RunConfig& config, const DataSet& set) {
  const fs::path sources = get_folder(config, set) / kSources;
  return config.data.repartition && is_there(sources) && read_file(sources) == describe_sources(config, set);
}

/// "a.parquet b.parquet", or what stands for many.
std::string words_for(const std::vector<DataFile>& files) {
  if (files.size() > 3) return "FILES";
  std::string words;
  for (const DataFile& file : files) words += (words.empty() ? "" : " ") + shell_word(file.path.string());
  return words;
}

}  // namespace

void prepare_partitions(RunConfig& config, const std::vector<DataSet>& sets, int64_t ranks) {
  if (config.data.order != "partitions") return;
  int64_t& partitions = config.data.partitions;
  if (partitions == 0) partitions = ranks;
  for (const DataSet& set : sets) {
    const auto [rows, groups] = get_sizes(set.files.training);
    if (groups % partitions == 0) continue;
    const std::optional<int64_t> size = rows_for_parts(rows, partitions);
    const std::string what = fmt::format(
        "{}data.order = \"partitions\": the files have {} row {}, which is no multiple of {} data-parallel ranks",
        set.name.empty() ? "" : fmt::format("data.sets.{}: ", set.name), groups, groups == 1 ? "group" : "groups",
        partitions);
    if (!size)
      throw ConfigError(what + ", and no other size of row groups makes it one: use fewer ranks, or more rows");
    if (!config.data.repartition)
      throw ConfigError(
          fmt::format("{}: run `modrun repartition {} --rows {} --out DIR` and train on DIR, or set "
                      "data.repartition = true",
                      what, words_for(set.files.training), *size));
  }
}

std::vector<std::string> cut_row_groups(const RunConfig& config, const std::vector<DataSet>& sets) {
  std::vector<std::string> warnings;
  if (config.data.order != "partitions" || !config.data.repartition) return warnings;
  for (const DataSet& set : sets) {
    const auto [rows, groups] = get_sizes(set.files.training);
    if (groups % config.data.partitions == 0 || is_cut(config, set)) continue;
    const std::optional<int64_t> size = rows_for_parts(rows, config.data.partitions);
    if (!size) throw ConfigError("data.repartition: the files have changed since they were looked at: start again");
    const fs::path folder = get_folder(config, set);
    fs::create_directories(folder.parent_path());
    NewFolder cut(folder);
    // Numbers, as files of several folders may have one name.
    for (size_t file = 0; file < set.files.training.size(); ++file)
      parquet_library().cut(set.files.training[file].path.string(), cut.partial() / fmt::format("{:06}.parquet", file),
                            *size);
    write_file(cut.partial() / kSources, describe_sources(config, set));
    cut.publish();
    warnings.push_back(fmt::format(
        "data.repartition: {} row groups are no multiple of {} data-parallel ranks: the rows are cut into {} "
        "groups of {} in {}",
        groups, config.data.partitions, row_groups(rows, *size), *size, folder.string()));
  }
  return warnings;
}

std::vector<DataFile> partitioned_files(const RunConfig& config, const DataSet& set) {
  if (config.data.order != "partitions" || !is_cut(config, set)) return set.files.training;
  std::vector<DataFile> files;
  for (size_t file = 0; file < set.files.training.size(); ++file) {
    const fs::path path = get_folder(config, set) / fmt::format("{:06}.parquet", file);
    open_to_read(path);  // Arrow would follow a link
    files.push_back({path, static_cast<int64_t>(fs::file_size(path))});
  }
  return files;
}

}  // namespace modular
