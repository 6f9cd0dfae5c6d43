// What this machine remembers of its own checks, in the user's cache folder: which programs and libraries confirmed a
// committed record. A record is the same on every machine; the programs are not, so a changed one makes modcheck
// generate once more.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace modgen {

struct LocalRecord {
  std::string tools;   // identity of the programs and libraries that generated
  std::string record;  // digest of the committed record that they reproduced
};

/// Names, sizes and times of modgen and of the Clang and LLVM libraries that it is linked to, in one digest.
std::string identity_of_tools(const std::filesystem::path& modgen);

/// Nothing where the family was not checked before, or the cache folder does not exist or cannot be read.
std::optional<LocalRecord> read_local_record(const std::filesystem::path& root, const std::string& family);

/// Does nothing where there is no cache folder. Throws std::runtime_error where it cannot be written.
void write_local_record(const std::filesystem::path& root, const std::string& family, const LocalRecord& record);

}  // namespace modgen
