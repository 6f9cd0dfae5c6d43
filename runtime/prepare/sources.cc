#include "runtime/prepare/sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "runtime/data/files.h"
#include "runtime/prepare/source_kinds.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

const SourceKind* get_kind(const fs::path& path) {
  const auto kinds = source_kinds();
  const auto found = std::ranges::find(kinds, path.extension().string(), &SourceKind::suffix);
  return found == kinds.end() ? nullptr : &*found;
}

std::string known_suffixes() {
  std::vector<std::string_view> suffixes;
  for (const SourceKind& kind : source_kinds()) suffixes.push_back(kind.suffix);
  return fmt::format("{}", fmt::join(suffixes, ", "));
}

void add_folder(const fs::path& folder, std::vector<fs::path>& files) {
  const size_t before = files.size();
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && get_kind(entry.path())) files.push_back(entry.path());
  if (files.size() == before)
    throw DataError(fmt::format("{} has no file with one of the extensions {}", folder.string(), known_suffixes()));
}

Source found(const fs::path& path, RecordReader& reader) {
  Source source{.path = path, .kind = get_kind(path), .columns = {}, .begins = {}};
  source.bytes = static_cast<int64_t>(fs::file_size(path));
  source.modified =
      std::chrono::duration_cast<std::chrono::nanoseconds>(fs::last_write_time(path).time_since_epoch()).count();
  source.kind->cut(source, reader);
  return source;
}

}  // namespace

std::vector<Source> find_sources(const std::vector<std::string>& paths, RecordReader& reader) try {
  std::vector<fs::path> files;
  for (const std::string& given : paths) {
    const fs::path path = fs::absolute(given).lexically_normal();
    if (fs::is_directory(path))
      add_folder(path, files);
    else if (!fs::is_regular_file(path))
      throw DataError(fmt::format("{} does not exist: name files or folders to prepare", given));
    else if (!get_kind(path))
      throw DataError(
          fmt::format("{} has none of the extensions {}, which determine the kind of a file", given, known_suffixes()));
    else
      files.push_back(path);
  }
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  std::vector<Source> sources;
  for (const fs::path& path : files) sources.push_back(found(path, reader));
  return sources;
} catch (const fs::filesystem_error& error) {
  throw DataError(fmt::format("{} cannot be read: {}", error.path1().string(), error.code().message()));
}

std::vector<std::vector<Piece>> split_into_shards(const std::vector<Source>& sources, int64_t bytes) {
  std::vector<std::vector<Piece>> shards;
  int64_t filled = 0;
  for (size_t number = 0; number < sources.size(); ++number) {
    const auto& [path, kind, size, modified, columns, begins] = sources[number];
    const auto pieces = static_cast<int64_t>(begins.size()) - 1;
    for (int64_t at = 0; at < pieces; ++at) {
      const auto index = static_cast<size_t>(at);
      // Row groups are assumed to be equally large.
      const int64_t weight =
          kind->unit == SourceKind::Unit::rows_of_piece ? size / pieces : begins[index + 1] - begins[index];
      if (shards.empty() || (filled > 0 && filled + weight > bytes)) {
        shards.emplace_back();
        filled = 0;
      }
      shards.back().push_back({number, begins[index], begins[index + 1]});
      filled += weight;
    }
  }
  return shards;
}

}  // namespace modular
