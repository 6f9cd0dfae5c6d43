// The files that a generated file depends on, for its record.
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "generator/family_job.h"

namespace modgen {
namespace {

/// `path` as records name it.
std::string shown(const std::string& path, const ParseOptions& folders) {
  const std::string root = folders.root + "/";
  return path.starts_with(root) ? path.substr(root.size()) : path;
}

/// The spec of `family` and the files that it includes, directly or indirectly, as indices in the table of files.
std::set<uint32_t> files_of(const std::string& family, const Parsed& parsed, const ParseOptions& folders) {
  std::vector<uint32_t> next;
  for (const std::string& tree : {folders.root, folders.shipped})
    if (const uint32_t file = parsed.sources.find(tree + "/modular/" + family + ".h")) next.push_back(file);
  std::set<uint32_t> reached;
  while (!next.empty()) {
    const uint32_t file = next.back();
    next.pop_back();
    if (!reached.insert(file).second) continue;
    for (const Inclusion& inclusion : parsed.inclusions)
      if (inclusion.file == file && inclusion.target != 0) next.push_back(inclusion.target);
  }
  return reached;
}

}  // namespace

void set_dependencies(const Parsed& parsed, const ParseOptions& folders, std::vector<Output>& outputs) {
  std::set<Parsed::Absent> candidates(parsed.absent.begin(), parsed.absent.end());
  // A file that exists is not an absent candidate: another include may have found it through another folder.
  std::erase_if(candidates, [](const Parsed::Absent& absent) {
    std::error_code unreadable;
    return std::filesystem::is_regular_file(absent.path, unreadable);
  });
  for (Output& output : outputs) {
    const std::set<uint32_t> files = files_of(output.family, parsed, folders);
    std::set<std::string> read, absent;
    for (const uint32_t file : files) read.insert(parsed.sources[file].path);
    for (const std::string& path : parsed.prelude) read.insert(shown(path, folders));
    for (const Parsed::Absent& one : candidates)
      if (one.file == 0 || files.count(one.file)) absent.insert(shown(one.path, folders));
    output.read.assign(read.begin(), read.end());
    output.absent.assign(absent.begin(), absent.end());
  }
}

}  // namespace modgen
