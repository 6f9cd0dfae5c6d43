// The readers of user files, each with valid inputs to start from.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/random.h"

namespace modular::fuzz {

/// Input of a program: files in the working directory, and --set options.
struct Input {
  std::map<std::string, std::string> files;
  std::vector<std::string> overrides;
};

struct Reader {
  std::string_view name;
  std::string_view reads;
  /// A valid input with some changes.
  Input (*make)(Random& random);
  /// Reads the input, whose files are in the working directory, as the programs do, and uses the result. Throws if it
  /// is rejected.
  void (*read)(const Input& input);
  /// Locations that tell the user where to look; an error message must contain one of them.
  std::vector<std::string_view> locations;
};

std::vector<Reader> config_readers();
std::vector<Reader> tensor_readers();
std::vector<Reader> folder_readers();
std::vector<Reader> data_readers();
std::vector<Reader> report_readers();

/// Makes libtorch compute in this thread alone, which processes that fork need.
void use_one_thread();

/// Files of a folder and its subfolders, by relative path.
std::map<std::string, std::string> get_files(const std::filesystem::path& folder);
void write_files(const std::filesystem::path& folder, const std::map<std::string, std::string>& files);

}  // namespace modular::fuzz
