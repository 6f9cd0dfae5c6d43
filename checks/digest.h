// Digests of bytes and files. They notice changes; they authenticate nothing, which is why `modcheck --full` exists.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace modgen {

/// XXH3's 128 bits of `bytes` as 32 hexadecimal digits: the same on every machine.
std::string digest(std::string_view bytes);

/// The file's bytes. Throws std::runtime_error, naming the file, where it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// The file's bytes; nothing where there is no such file. Throws as read_file does where there is one that cannot be
/// read.
std::optional<std::string> read_file_if_any(const std::filesystem::path& path);

/// Makes the folder, and replaces the file in one step, through a temporary beside it: a reader sees the old bytes or
/// the new. Throws std::runtime_error.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// One digest of the names and bytes of all C++ sources below `folder`, in the order of their names.
std::string digest_of_sources(const std::filesystem::path& folder);

}  // namespace modgen
