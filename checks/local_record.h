// Local records of this machine's checks, in the user's cache folder: the programs and libraries that confirmed a
// committed record. Committed records are the same on every machine, but programs are not, so modcheck regenerates if
// one has changed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace modgen {

struct LocalRecord {
  std::string tools;   // identity of the programs and libraries that generated
  std::string record;  // digest of the committed record that they reproduced
};

/// One digest of the names, sizes and modification times of modgen and of the Clang and LLVM libraries that it links.
std::string identity_of_tools(const std::filesystem::path& modgen);

/// Empty if the family has not been checked before, or the cache folder does not exist or cannot be read.
std::optional<LocalRecord> read_local_record(const std::filesystem::path& root, const std::string& family);

/// Does nothing without a cache folder. Throws std::runtime_error if the record cannot be written.
void write_local_record(const std::filesystem::path& root, const std::string& family, const LocalRecord& record);

}  // namespace modgen
