// The files that a run reads: found, checked, and split into training and validation files before the first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace modular {

/// Unusable data. The message names the file, the problem and the fix.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Manifest of a folder that `modrun prepare` wrote: the list of its data files. A folder that has a manifest is read
/// through it.
inline constexpr const char* kPreparedManifest = "prepared.manifest";
/// File in that folder from the start of preparation: its sources and options.
inline constexpr const char* kPrepareOptions = "prepare.json";
/// Subfolder that exists until the folder is complete.
inline constexpr const char* kPrepareWork = "work";

struct DataOptions {
  std::string format = "bytes";         // a name of data_formats()
  std::vector<std::string> paths;       // files, folders (searched recursively), globs, and manifests (*.manifest)
  std::vector<std::string> suffixes;    // suffixes of a folder's files to read, e.g. ".h"; empty for all
  int64_t validation_every = 0;         // every n-th file, in the order of their paths, is for validation; 0: none
  std::vector<std::string> validation;  // globs that select among the files of `paths`, and paths of other files
  double validation_fraction = 0.0;  // fraction of the samples, the last ones, for validation instead of files; 0: none
  bool trim = false;                 // examples: batches are as long as the longest row of their step
  bool group_by_length = false;      // examples: rows of similar length are batched together
  std::string order = "rows";        // or "partitions": each data-parallel rank reads its own row groups
  int64_t partitions = 0;            // number of partitions; 0: the number of data-parallel ranks
  bool repartition = false;          // rewrite files with other row groups if partitions do not divide their number
  double mask_probability = 0.15;    // for masked language modeling
  bool pack = false;                 // documents in a row do not attend to each other
  int64_t end_of_text = -1;          // id of the token that ends a document; -1: only the end of a file ends one
  int64_t mask_token = -1;           // id that replaces a masked token; -1: not given
};

/// A file as it was found. Reads check that it has not changed.
struct DataFile {
  std::filesystem::path path;
  int64_t bytes = 0;        // size of the file
  int64_t header = 0;       // bytes before the first token
  int64_t token_bytes = 1;  // 1, 2, 4 or 8
  int64_t tokens() const { return (bytes - header) / token_bytes; }
};

struct DataFiles {
  std::vector<DataFile> training, validation;
};

struct NeededFiles {
  bool validation = true;  // some, where `options` asks for validation files
  bool training = true;    // training files are required
  bool separate_validation =
      true;  // read entries of data.validation that match none of data.paths as paths of their own
};

/// Finds and checks the files that `options` names, ordered by path. Throws DataError if one is missing, unreadable,
/// cut off or differs from its manifest, or if no `needed` file is found.
DataFiles find_data_files(const DataOptions& options, const NeededFiles& needed = {});

/// A manifest: sizes and paths, one file per line, `<bytes> <absolute path>`. A line whose path has line breaks or
/// backslashes begins with a backslash, and has \n, \r and \\ for these, as in sha256sum's output. In data.paths it
/// stands for its files. It is an error if the size of one has changed.
std::string format_manifest(const DataFiles& files);

/// Throws DataError naming the first file that differs from `manifest`; the order of files may differ.
void check_manifest(const std::filesystem::path& manifest, const DataFiles& files);

}  // namespace modular
