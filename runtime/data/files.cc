#include "runtime/data/files.h"

#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <set>

#include "runtime/data/data_formats.h"
#include "runtime/files/open_file.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

bool is_glob(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> expand_glob(const std::string& pattern, const char* key) {
  glob_t found{};
  const int failed = glob(pattern.c_str(), GLOB_TILDE, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (failed ? 0 : found.gl_pathc));
  globfree(&found);
  if (paths.empty()) throw DataError(std::string(key) + ": nothing matches \"" + pattern + "\"");
  return paths;
}

/// The format, whose name has been checked.
const DataFormat& get_format(const DataOptions& options) { return *find_data_format(options.format); }

DataFile inspect(const fs::path& given, const DataFormat& format) {
  const fs::path of_ids = format.file_of_ids ? format.file_of_ids(given) : given;
  std::error_code error;  // the name may be too long
  const fs::path& path = fs::exists(of_ids, error) ? of_ids : given;
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) throw DataError(path.string() + ": " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) throw DataError(path.string() + ": is neither a file nor a folder");
  if (access(path.c_str(), R_OK) != 0) throw DataError(path.string() + ": cannot be read: " + std::strerror(errno));
  return format.inspect ? format.inspect(path) : DataFile{path, status.st_size};
}

/// Formats a path in one line; the line begins with a backslash if this escapes anything.
std::string manifest_line(int64_t bytes, const std::string& path) {
  std::string line = std::to_string(bytes) + ' ';
  for (const char c : path) {
    const size_t kind = std::string_view("\n\r\\").find(c);
    if (kind == std::string_view::npos) {
      line += c;
      continue;
    }
    if (!line.starts_with('\\')) line.insert(0, 1, '\\');
    line.append(1, '\\').append(1, "nr\\"[kind]);
  }
  return line + '\n';
}

std::string unescaped(const std::string& line) {
  std::string plain;
  for (size_t at = 0; at < line.size(); ++at) {
    const bool escapes = line[at] == '\\' && at + 1 < line.size();
    const char c = line[at += escapes];
    plain += !escapes ? c : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  return plain;
}

struct ManifestLine {
  int64_t bytes = 0;
  fs::path path;
};

std::vector<ManifestLine> read_manifest(const fs::path& manifest, Links links) try {
  LineReader in(manifest, links);
  std::vector<ManifestLine> lines;
  for (std::string line; in.next(line);) {
    ManifestLine entry;
    if (line.starts_with('\\')) line = unescaped(line.substr(1));
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), entry.bytes);
    if (error != std::errc() || *rest != ' ')
      throw DataError(manifest.string() + ":" + std::to_string(lines.size() + 1) + ": expected `<bytes> <path>`");
    entry.path = manifest.parent_path() / fs::path(rest + 1);  // an absolute path replaces the folder
    lines.push_back(std::move(entry));
  }
  return lines;
} catch (const DataError&) {
  throw;
} catch (const std::runtime_error& error) {
  throw DataError(error.what());
}

[[noreturn]] void reject_size(const fs::path& path, int64_t bytes, int64_t recorded, const fs::path& manifest) {
  throw DataError(path.string() + ": has " + std::to_string(bytes) + " bytes but " + manifest.string() + " says " +
                  std::to_string(recorded) + ": the file was cut off or changed, restore it");
}

bool has_suffix(const fs::path& path, const std::vector<std::string>& suffixes) {
  return suffixes.empty() ||
         std::ranges::any_of(suffixes, [&](const auto& suffix) { return path.native().ends_with(suffix); });
}

/// Whether `modrun prepare` has begun the folder but not completed it.
bool is_interrupted(const fs::path& folder) {
  return fs::is_regular_file(folder / kPrepareOptions) && fs::is_directory(folder / kPrepareWork) &&
         !fs::exists(folder / kPreparedManifest);
}

/// Throws if a folder is not itself data: one that `modrun prepare` has not completed, or a parent of folders that it
/// wrote.
void check_folder(const fs::path& folder) {
  const auto check_complete = [](const fs::path& candidate) {
    if (is_interrupted(candidate))
      throw DataError(candidate.string() +
                      ": its preparation was interrupted: run the same `modrun prepare` command again, which "
                      "completes it");
  };
  check_complete(folder);
  std::vector<std::string> prepared;
  std::error_code error;
  for (fs::recursive_directory_iterator entries(folder, error), end; !error && entries != end;
       entries.increment(error)) {
    const fs::path name = entries->path().filename();
    if (name == kPrepareOptions) check_complete(entries->path().parent_path());
    if (name == kPreparedManifest) prepared.push_back(entries->path().parent_path().string());
  }
  if (prepared.empty()) return;
  std::ranges::sort(prepared);
  constexpr size_t kShown = 5;
  std::string names;
  for (size_t i = 0; i < std::min(kShown, prepared.size()); ++i) names += (i > 0 ? ", " : "") + prepared[i];
  throw DataError(folder.string() + ": is not prepared data but holds folders of it: name these in data.paths, " +
                  names + (prepared.size() > kShown ? " and others" : ""));
}

void add_folder(const fs::path& folder, const DataOptions& options, std::vector<DataFile>& files) {
  check_folder(folder);
  const DataFormat& format = get_format(options);
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  const auto is_data = [&](const fs::path& path) {
    if (options.suffixes.empty() && format.is_data && !format.is_data(path)) return false;
    return !format.file_of_ids || format.file_of_ids(path) == path;
  };
  for (const fs::recursive_directory_iterator end; !error && entries != end; entries.increment(error))
    if (has_suffix(entries->path(), options.suffixes) && entries->is_regular_file(error) && is_data(entries->path()))
      files.push_back(inspect(entries->path(), format));
  if (error) throw DataError(folder.string() + ": cannot be listed: " + error.message());
}

void add_path(const fs::path& path, const DataOptions& options, std::vector<DataFile>& files) {
  if (fs::exists(path / kPreparedManifest)) return add_path(path / kPreparedManifest, options, files);
  if (fs::is_directory(path)) return add_folder(path, options, files);
  if (path.extension() != ".manifest") return files.push_back(inspect(path, get_format(options)));
  for (const auto& line : read_manifest(path, Links::followed)) {
    try {
      files.push_back(inspect(line.path, get_format(options)));
    } catch (const DataError& error) {
      throw DataError(std::string(error.what()) + " (a file of " + path.string() + ")");
    }
    if (files.back().bytes != line.bytes) reject_size(line.path, files.back().bytes, line.bytes, path);
  }
}

/// Adds the files of `paths`, which the config has under `key`.
void add_paths(const std::vector<std::string>& paths, const char* key, const DataOptions& options,
               std::vector<DataFile>& files) {
  for (const auto& path : paths) {
    if (is_glob(path) && !is_there(path)) {
      for (const auto& match : expand_glob(path, key)) add_path(match, options, files);
    } else {
      add_path(path, options, files);
    }
  }
}

/// Sorts files by path, and removes repeated ones.
void sort_files(std::vector<DataFile>& files) {
  std::ranges::sort(files, {}, [](const DataFile& file) -> const std::string& { return file.path.native(); });
  const auto repeated = std::ranges::unique(files, {}, &DataFile::path);
  files.erase(repeated.begin(), repeated.end());
}

/// Removes files without tokens. Files that hold samples stay: an empty one was cut off.
void remove_empty_files(const DataOptions& options, std::vector<DataFile>& files) {
  if (!get_format(options).holds_samples) std::erase_if(files, [](const DataFile& file) { return file.tokens() == 0; });
}

bool matches(const std::string& pattern, const fs::path& file) {
  return pattern == file || fnmatch(pattern.c_str(), file.c_str(), 0) == 0;
}

/// The files of entries of data.validation that select none of the `found` files: paths of other data. A pattern that
/// begins with a wildcard only selects, as it matches paths of any folder.
std::vector<DataFile> find_validation_files(const std::vector<DataFile>& found, const DataOptions& options) {
  std::vector<std::string> paths;
  for (const std::string& entry : options.validation) {
    const bool only_selects = entry.empty() || is_glob(entry.substr(0, 1));
    if (!only_selects && std::ranges::none_of(found, [&](const auto& file) { return matches(entry, file.path); }))
      paths.push_back(entry);
  }
  std::vector<DataFile> files;
  add_paths(paths, "data.validation", options, files);
  sort_files(files);
  remove_empty_files(options, files);
  return files;
}

bool is_validation_file(const DataFile& file, size_t index, const DataOptions& options) {
  if (options.validation_every > 0 && (index + 1) % static_cast<size_t>(options.validation_every) == 0) return true;
  return std::ranges::any_of(options.validation, [&](const auto& pattern) { return matches(pattern, file.path); });
}

}  // namespace

DataFiles find_data_files(const DataOptions& options, const NeededFiles& needed) {
  if (const std::string unknown = unknown_data_format(options.format); !unknown.empty()) throw DataError(unknown);
  if (options.paths.empty()) throw DataError("data.paths is empty: name files, folders or globs to train on");

  std::vector<DataFile> found;
  add_paths(options.paths, "data.paths", options, found);
  sort_files(found);
  if (found.empty())
    throw DataError("data.paths: no file in " + options.paths.front() + ": check data.paths and data.suffixes");
  const fs::path first = found.front().path;
  remove_empty_files(options, found);
  if (found.empty()) throw DataError("data.paths: " + first.string() + " is empty: name files that hold data");

  DataFiles files;
  if (needed.separate_validation) files.validation = find_validation_files(found, options);
  std::set<fs::path> separate;
  for (const DataFile& file : files.validation) separate.insert(file.path);
  for (size_t i = 0; i < found.size(); ++i) {
    if (separate.contains(found[i].path)) continue;  // data.validation may name a folder within data.paths
    (is_validation_file(found[i], i, options) ? files.validation : files.training).push_back(std::move(found[i]));
  }
  sort_files(files.validation);
  if (needed.training && files.training.empty())
    throw DataError("data.paths: no file is left to train on, as all are held out: check data.validation");
  if (needed.validation && files.validation.empty() && (options.validation_every > 0 || !options.validation.empty()))
    throw DataError(
        std::string("data.validation: no file is held out: the patterns match none, or there are fewer than "
                    "data.validation_every files") +
        (needed.training ? "" : "; to evaluate on all files, set data.validation=[\"*\"]"));
  return files;
}

std::string format_manifest(const DataFiles& files) {
  std::string text;
  for (const auto* list : {&files.training, &files.validation})
    for (const auto& file : *list) text += manifest_line(file.bytes, fs::absolute(file.path).native());
  return text;
}

void check_manifest(const fs::path& manifest, const DataFiles& files) {
  std::map<fs::path, int64_t> recorded;
  for (auto& line : read_manifest(manifest, Links::none)) recorded[std::move(line.path)] = line.bytes;
  for (const auto* list : {&files.training, &files.validation}) {
    for (const auto& file : *list) {
      const auto path = fs::absolute(file.path);
      const auto line = recorded.find(path);
      if (line == recorded.end())
        throw DataError(path.string() + ": is not in " + manifest.string() + ": the run started without this file");
      if (line->second != file.bytes) reject_size(path, file.bytes, line->second, manifest);
      recorded.erase(line);
    }
  }
  if (!recorded.empty())
    throw DataError(recorded.begin()->first.string() + ": is in " + manifest.string() +
                    " but is gone: restore the file that the run started with");
}

}  // namespace modular
