#include <fstream>
#include <sstream>

#include "tests/fuzz/readers.h"

namespace modular::fuzz {

namespace fs = std::filesystem;

std::map<std::string, std::string> get_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::stringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().lexically_relative(folder).string()] = text.str();
  }
  return files;
}

void write_files(const fs::path& folder, const std::map<std::string, std::string>& files) {
  for (const auto& [name, text] : files) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name, std::ios::binary) << text;
  }
}

}  // namespace modular::fuzz
