// The committed record of a generated file, generated/<family>.lock: what the file was made from, by digests, the same
// on every machine. modgen writes it beside its output and skips a family whose record is current; modcheck verifies it
// without loading Clang.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace modgen {

/// Where files are: the user's tree, and the tree that ships the prelude, the contract and the families. The same in
/// this project.
struct Tree {
  std::filesystem::path root, shipped;

  /// How a record names a file: relative to the root ("modular/llama.h"), or "<shipped>/…". Throws std::runtime_error
  /// for a file of neither.
  std::string name_for(const std::filesystem::path& path) const;
  std::filesystem::path path_to(std::string_view name) const;
};

/// The folder of the running program.
std::filesystem::path program_folder();

/// The tree that holds the prelude for specs below `root`: `root` itself where it has one, else the one that ships with
/// the running program: include/modular/ beside an installed bin/, else the sources that it was built from.
std::filesystem::path shipped_tree(const std::filesystem::path& root);

struct FileDigest {
  std::string name, digest;
  bool operator==(const FileDigest&) const = default;
};

struct Record {
  std::string generator;    // digest of the generator's sources, in which its style and options are written
  std::string llvm, torch;  // releases
  std::string output;       // digest of the generated file's bytes
  FileDigest spec;
  std::vector<FileDigest> read;     // every other project file that the output depends on, by name
  std::vector<std::string> absent;  // include candidates that did not exist: one that appears would be included instead

  bool operator==(const Record&) const = default;
};

/// What this build's generator is: digest of its sources, LLVM's and torch's releases.
struct GeneratorIdentity {
  std::string sources, llvm, torch;
};
GeneratorIdentity built_generator();

/// The files of a tree as they are found, each looked at once: families share most of what they depend on.
class TreeFiles {
 public:
  explicit TreeFiles(Tree tree) : tree_(std::move(tree)) {}

  const Tree& tree() const { return tree_; }
  /// The digest of the text of the file that records call `name`; nothing where there is none.
  const std::optional<std::string>& digest(const std::string& name);
  bool exists(const std::string& name);

 private:
  Tree tree_;
  std::unordered_map<std::string, std::optional<std::string>> digests_;
  std::unordered_map<std::string, bool> exists_;
};

/// The record of an output just made by the generator of this build. `read` and `absent` are paths as generate() gives
/// them: relative to the root, or absolute. Throws std::runtime_error where a file cannot be read.
Record make_record(TreeFiles& files, const std::string& family, std::string_view output_bytes,
                   const std::vector<std::string>& read, const std::vector<std::string>& absent);

/// The record as text, one fact a line.
std::string to_text(const Record& record);

/// Throws std::runtime_error, with the line, where `text` is not a record; a text with carriage returns is not.
Record parse_record(std::string_view text);

/// Why the generated file in `output_folder` may not be what its spec says: one sentence each, none where the record is
/// current. `generator` is what would make the file now.
std::vector<std::string> reasons_to_regenerate(const Record& record, TreeFiles& files, const std::string& family,
                                               const std::filesystem::path& output_folder,
                                               const GeneratorIdentity& generator);

/// True where `output_folder` holds the family's generated file and a current record of it, both as this build's
/// generator makes them.
bool is_current(TreeFiles& files, const std::string& family, const std::filesystem::path& output_folder);

}  // namespace modgen
