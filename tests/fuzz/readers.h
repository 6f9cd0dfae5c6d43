// The readers of files that users give, each with valid inputs to begin from.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/random.h"

namespace modular::fuzz {

/// What a program is given: files in the working directory, and settings of its command line.
struct Input {
  std::map<std::string, std::string> files;
  std::vector<std::string> settings;
};

struct Reader {
  std::string_view name;
  std::string_view reads;
  /// A valid input with some changes.
  Input (*make)(Random& random);
  /// Reads the input, whose files lie in the working directory, as the programs do, and uses what it says. Throws where
  /// it is rejected.
  void (*read)(const Input& input);
  /// Of which the message of a error has to hold one: what tells a user where to look.
  std::vector<std::string_view> places;
};

std::vector<Reader> config_readers();
std::vector<Reader> tensor_readers();
std::vector<Reader> folder_readers();
std::vector<Reader> data_readers();
std::vector<Reader> report_readers();

/// Has libtorch compute in this thread alone, as processes that fork need it.
void use_one_thread();

/// Files of a folder and the folders in it, by their paths in it.
std::map<std::string, std::string> get_files(const std::filesystem::path& folder);
void write_files(const std::filesystem::path& folder, const std::map<std::string, std::string>& files);

}  // namespace modular::fuzz
