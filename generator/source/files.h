// File I/O of modgen and modcheck: regular files only, read and written in full, with errors that name the file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modgen {

/// The file's bytes. Throws std::runtime_error, naming the file, if it cannot be read, for example because it is a
/// folder or a pipe.
std::string read_file(const std::filesystem::path& path);

/// The file's bytes; nullopt if it does not exist. Throws like read_file if it exists but cannot be read.
std::optional<std::string> read_file_if_any(const std::filesystem::path& path);

/// Creates the file's folder if needed and replaces the file atomically, through a temporary file next to it: a reader
/// sees either the old bytes or the new. Throws std::runtime_error, naming the file; then nothing has changed.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// The same for several files: all are written next to their destinations before the first is replaced. If one cannot
/// be written, none changes.
void write_files(const std::vector<std::pair<std::filesystem::path, std::string>>& files);

/// Makes a write beyond the file size limit (ulimit -f) fail, like a write to a full disk, instead of ending the
/// program.
void let_writes_fail();

/// Throws std::runtime_error if writing to standard output failed.
void check_standard_output();

}  // namespace modgen
