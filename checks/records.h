// The committed record of a generated file, generated/<family>.lock: digests of all inputs of the file, the same on
// every machine. modgen writes it next to its output and skips families whose record is current; modcheck verifies it
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

/// The user's tree, and the tree that ships the prelude, the contract and the families. Both are the same in this
/// project.
struct Tree {
  std::filesystem::path root, shipped;

  /// The name of a file in a record: relative to the root ("modular/llama.h"), or "<shipped>/…". Throws
  /// std::runtime_error for a file in neither tree.
  std::string name_for(const std::filesystem::path& path) const;
  std::filesystem::path path_to(std::string_view name) const;
};

/// The folder of the running program.
std::filesystem::path program_folder();

/// The tree with the prelude for specs below `root`: `root` itself if it has one; otherwise the tree of the running
/// program, which is include/modular/ next to an installed bin/, or the sources that it was built from.
std::filesystem::path shipped_tree(const std::filesystem::path& root);

struct FileDigest {
  std::string name, digest;
  bool operator==(const FileDigest&) const = default;
};

struct Record {
  std::string generator;    // digest of the generator's sources, which include its style and options
  std::string llvm, torch;  // releases
  std::string output;       // digest of the generated file's bytes
  FileDigest spec;
  std::vector<FileDigest> read;     // all other project files that the output depends on, sorted by name
  std::vector<std::string> absent;  // include candidates that did not exist, and would be included if they appeared

  bool operator==(const Record&) const = default;
};

/// Identity of this build's generator: digest of its sources, and the releases of LLVM and torch.
struct GeneratorIdentity {
  std::string sources, llvm, torch;
};
GeneratorIdentity built_generator();

/// The files of a tree, each read at most once, since families share most of their dependencies.
class TreeFiles {
 public:
  explicit TreeFiles(Tree tree) : tree_(std::move(tree)) {}

  const Tree& tree() const { return tree_; }
  /// The digest of the text of the file with that name in records; empty if there is no such file.
  const std::optional<std::string>& digest(const std::string& name);
  bool exists(const std::string& name);

 private:
  Tree tree_;
  std::unordered_map<std::string, std::optional<std::string>> digests_;
  std::unordered_map<std::string, bool> exists_;
};

/// Creates the record of an output that this build's generator has just written. `read` and `absent` are paths from
/// generate(): relative to the root, or absolute. Throws std::runtime_error if a file cannot be read.
Record make_record(TreeFiles& files, const std::string& family, std::string_view output_bytes,
                   const std::vector<std::string>& read, const std::vector<std::string>& absent);

/// The record as text, one entry per line.
std::string to_text(const Record& record);

/// Throws std::runtime_error, with the line number, if `text` is not a record. Carriage returns are an error.
Record parse_record(std::string_view text);

/// The reasons why the generated file in `output_folder` may differ from its spec; empty if the record is current.
/// `generator` is the generator that would write the file now.
std::vector<std::string> reasons_to_regenerate(const Record& record, TreeFiles& files, const std::string& family,
                                               const std::filesystem::path& output_folder,
                                               const GeneratorIdentity& generator);

/// Whether `output_folder` contains the family's generated file and a current record, both as written by this build's
/// generator.
bool is_current(TreeFiles& files, const std::string& family, const std::filesystem::path& output_folder);

}  // namespace modgen
