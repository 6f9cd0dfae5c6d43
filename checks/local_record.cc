#include "checks/local_record.h"

#include <sys/stat.h>

#include <sstream>
#include <stdexcept>

#include "checks/build_identity.h"
#include "checks/digest.h"
#include "generator/source/files.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

std::optional<fs::path> get_file(const fs::path& root, const std::string& family) {
  const std::optional<fs::path> cache = cache_folder();
  if (!cache) return std::nullopt;
  return *cache / "verified" / (digest(fs::weakly_canonical(root).string()) + "-" + family);
}

}  // namespace

std::string identity_of_tools(const fs::path& modgen) {
  std::ostringstream text;
  for (const fs::path& file : {modgen, modgen.parent_path() / "modgen-generate", fs::path(MODULAR_CLANG_LIBRARY),
                               fs::path(MODULAR_LLVM_LIBRARY)}) {
    struct stat status{};
    text << file.string();
    if (stat(file.c_str(), &status) == 0)
      text << ' ' << status.st_size << ' ' << status.st_mtim.tv_sec << '.' << status.st_mtim.tv_nsec;
    text << '\n';
  }
  return digest(text.str());
}

std::optional<LocalRecord> read_local_record(const fs::path& root, const std::string& family) {
  const std::optional<fs::path> file = get_file(root, family);
  if (!file) return std::nullopt;
  try {
    const std::optional<std::string> text = read_file_if_any(*file);
    if (!text) return std::nullopt;
    LocalRecord record;
    std::istringstream(*text) >> record.tools >> record.record;
    return record;
  } catch (const std::runtime_error&) {
    return std::nullopt;  // treat an unreadable record as missing
  }
}

void write_local_record(const fs::path& root, const std::string& family, const LocalRecord& record) {
  if (const std::optional<fs::path> file = get_file(root, family))
    write_file(*file, record.tools + '\n' + record.record + '\n');
}

}  // namespace modgen
