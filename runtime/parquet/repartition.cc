#include "runtime/parquet/repartition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/parquet/library.h"

namespace modular {

namespace fs = std::filesystem;

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

}  // namespace modular
