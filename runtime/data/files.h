// The files that a run reads: found, checked and split into training and held-out ones before the first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace modular {

/// Data that cannot be used: which file, what is wrong with it, what to do.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The manifest of a folder that `modrun prepare` wrote: which of its files are data. A folder with one is read by it.
inline constexpr const char* kPreparedManifest = "prepared.manifest";
/// In it from the beginning: of what it is prepared, and how.
inline constexpr const char* kPrepareOptions = "prepare.json";
/// In it until it is complete.
inline constexpr const char* kPrepareWork = "work";

struct DataOptions {
  // "bytes": any file, a token is a byte; one of token_formats(); "examples": safetensors files whose rows are examples
  // (runtime/checkpoint/examples.h); "parquet": Parquet files of such rows; "images"
  std::string format = "bytes";
  std::vector<std::string> paths;       // files, folders (searched through), globs, and manifests (*.manifest)
  std::vector<std::string> suffixes;    // which files of a folder count, e.g. ".h"; all when empty
  int64_t validation_every = 0;         // every n-th file, in the order of their paths, is for validation; 0: none
  std::vector<std::string> validation;  // globs that select among the files of `paths`, and paths of other files
  double validation_fraction = 0.0;  // fraction of the samples, the last ones, for validation instead of files; 0: none
  bool trim = false;                 // examples: batches end with the longest row of their step
  bool group_by_length = false;      // examples: rows of like length come together
  std::string order = "rows";        // or "partitions": each draws from row groups of its own
  int64_t partitions = 0;            // how many; 0: as many as data-parallel ranks
  bool repartition = false;          // cut row groups again where their number does not divide
  double mask_probability = 0.15;    // of masked language modeling
  bool pack = false;                 // a row's documents do not see each other
  int64_t end_of_text = -1;          // the id of the token that ends a document; -1: files alone end one
  int64_t mask_token = -1;           // the id that replaces a masked token; -1 for none given
};

/// A file as it was when it was found. Reading it later checks that it still is.
struct DataFile {
  std::filesystem::path path;
  int64_t bytes = 0;        // size of the file
  int64_t header = 0;       // bytes before the first token
  int64_t token_bytes = 1;  // 1, 2, 4 or 8
  int64_t tokens() const { return (bytes - header) / token_bytes; }
};

/// Says that a data.format is not known, or nothing.
std::string unknown_data_format(const std::string& format);

struct DataFiles {
  std::vector<DataFile> training, validation;
};

struct NeededFiles {
  bool validation = true;  // some, where `options` asks for validation files
  bool training = true;    // some to train on
  bool separate_validation =
      true;  // read entries of data.validation that match none of data.paths as paths of their own
};

/// Finds and checks the files that `options` names, ordered by path. Throws DataError where one is missing, unreadable,
/// cut off or unlike its manifest, or where none is found that is `needed`.
DataFiles find_data_files(const DataOptions& options, const NeededFiles& needed = {});

/// A manifest: sizes and paths, a file a line, `<bytes> <absolute path>`; a line whose path has line breaks or
/// backslashes begins with a backslash, and has \n, \r and \\ for these, as sha256sum writes them. Given as a path,
/// it is replaced by its files. It is an error where the size of one has changed.
std::string format_manifest(const DataFiles& files);

/// Throws DataError naming the first file that is not as `manifest` says; the two may order files differently.
void check_manifest(const std::filesystem::path& manifest, const DataFiles& files);

}  // namespace modular
