#include "runtime/datasets/partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/config/config_field.h"
#include "runtime/data/parquet_library.h"
#include "runtime/files/open_file.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSources = "sources.manifest";

struct Sizes {
  std::vector<int64_t> files;  // rows per file
  int64_t groups = 0;          // non-empty row groups of all files
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

fs::path get_folder(const TrainSection& train, const RunDataset& set) {
  return fs::path(train.dir) / "row-groups" / (set.name.empty() ? "data" : set.name);
}

/// Identity of a folder: the source files as they were, and the number of partitions.
std::string describe_sources(const DataSection& data, const RunDataset& set) {
  return fmt::format("{} partitions\n{}", data.partitions, format_manifest({set.files.training, {}}));
}

bool is_cut(const RunConfig& config, const RunDataset& set) {
  const fs::path sources = get_folder(config.train, set) / kSources;
  return config.data.repartition && is_there(sources) && read_file(sources) == describe_sources(config.data, set);
}

/// "a.parquet b.parquet", or a placeholder for many files.
std::string words_for(const std::vector<DataFile>& files) {
  if (files.size() > 3) return "FILES";
  std::string words;
  for (const DataFile& file : files) words += (words.empty() ? "" : " ") + shell_word(file.path.string());
  return words;
}

}  // namespace

void repartition(const std::vector<fs::path>& files, int64_t rows, const fs::path& out,
                 const std::function<void(size_t)>& done) {
  if (fs::exists(fs::symlink_status(out)))
    throw std::runtime_error(fmt::format("{} exists: name a new folder, or remove it", out.string()));
  std::set<fs::path> names;
  for (const fs::path& file : files)
    if (!names.insert(file.filename()).second)
      throw std::runtime_error(
          fmt::format("{}: another file is also called {}, and all files are written into one folder: rename one of "
                      "them, or repartition them into separate folders",
                      file.string(), file.filename().string()));
  const ParquetLibrary& library = parquet_library();
  NewFolder cut(out);
  size_t count = 0;
  for (const fs::path& file : files) {
    library.cut(file, cut.partial() / file.filename(), rows);
    done(++count);
  }
  cut.publish();
}

int64_t row_groups(std::span<const int64_t> rows_of_files, int64_t rows) {
  int64_t groups = 0;
  for (const int64_t file : rows_of_files) groups += (file + rows - 1) / rows;
  return groups;
}

std::optional<int64_t> rows_for_parts(std::span<const int64_t> rows_of_files, int64_t parts) {
  int64_t largest = 0;
  for (const int64_t file : rows_of_files) largest = std::max(largest, file);
  int64_t rows = largest;
  while (rows > 0) {
    const int64_t groups = row_groups(rows_of_files, rows);
    if (groups % parts == 0) return rows;
    // The largest size with which some file has one more row group.
    int64_t next = 0;
    for (const int64_t file : rows_of_files)
      if (const int64_t groups_of_file = (file + rows - 1) / rows; file > 0 && groups_of_file < file)
        next = std::max(next, (file + groups_of_file) / (groups_of_file + 1));
    rows = std::min(next, rows - 1);
  }
  return {};
}

void prepare_partitions(RunConfig& config, const std::vector<RunDataset>& sets, int64_t ranks) {
  if (config.data.order != "partitions") return;
  int64_t& partitions = config.data.partitions;
  if (partitions == 0) partitions = ranks;
  for (const RunDataset& set : sets) {
    const auto [rows, groups] = get_sizes(set.files.training);
    if (groups % partitions == 0) continue;
    const std::optional<int64_t> size = rows_for_parts(rows, partitions);
    const std::string what = fmt::format(
        "{}data.order = \"partitions\": the files have {} row {}, which is not a multiple of {} data-parallel ranks",
        set.name.empty() ? "" : fmt::format("data.sets.{}: ", set.name), groups, groups == 1 ? "group" : "groups",
        partitions);
    if (!size) throw ConfigError(what + ", and no size of row groups makes it one: use fewer ranks, or more rows");
    if (!config.data.repartition)
      throw ConfigError(
          fmt::format("{}: run `modrun repartition {} --rows {} --out DIR` and train on DIR, or set "
                      "data.repartition = true",
                      what, words_for(set.files.training), *size));
  }
}

std::vector<std::string> cut_row_groups(const RunConfig& config, const std::vector<RunDataset>& sets) {
  std::vector<std::string> warnings;
  if (config.data.order != "partitions" || !config.data.repartition) return warnings;
  for (const RunDataset& set : sets) {
    const auto [rows, groups] = get_sizes(set.files.training);
    if (groups % config.data.partitions == 0 || is_cut(config, set)) continue;
    const std::optional<int64_t> size = rows_for_parts(rows, config.data.partitions);
    if (!size) throw ConfigError("data.repartition: the files have changed since they were checked: start again");
    const fs::path folder = get_folder(config.train, set);
    fs::create_directories(folder.parent_path());
    NewFolder cut(folder);
    // Numbered, as files in different folders may have the same name.
    for (size_t file = 0; file < set.files.training.size(); ++file)
      parquet_library().cut(set.files.training[file].path.string(), cut.partial() / fmt::format("{:06}.parquet", file),
                            *size);
    write_file(cut.partial() / kSources, describe_sources(config.data, set));
    cut.publish();
    warnings.push_back(
        fmt::format("data.repartition: {} row groups are not a multiple of {} data-parallel ranks: the rows are "
                    "rewritten into {} groups of {} in {}",
                    groups, config.data.partitions, row_groups(rows, *size), *size, folder.string()));
  }
  return warnings;
}

std::vector<DataFile> partitioned_files(const RunConfig& config, const RunDataset& set) {
  if (config.data.order != "partitions" || !is_cut(config, set)) return set.files.training;
  std::vector<DataFile> files;
  for (size_t file = 0; file < set.files.training.size(); ++file) {
    const fs::path path = get_folder(config.train, set) / fmt::format("{:06}.parquet", file);
    open_to_read(path);  // Arrow would follow a link
    files.push_back({path, static_cast<int64_t>(fs::file_size(path))});
  }
  return files;
}

void open_partitions(const RunConfig& config, std::vector<RunDataset>& sets) {
  if (config.data.order != "partitions") return;
  for (RunDataset& set : sets) set.training = open_split(config, set, Split::training);
}

}  // namespace modular
