// Files as modgen and modcheck read and write them: regular ones, whole, and with errors that name them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modgen {

/// The file's bytes. Throws std::runtime_error, naming the file, where it cannot be read: a folder or a pipe cannot.
std::string read_file(const std::filesystem::path& path);

/// The file's bytes; nothing where there is no such file. Throws as read_file does where there is one that cannot be
/// read.
std::optional<std::string> read_file_if_any(const std::filesystem::path& path);

/// Creates the file's folder if there is none, and replaces the file in one step, through a temporary file beside it:
/// a reader sees the old bytes or the new. Throws std::runtime_error, naming the file; nothing is changed then.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// The same for several files: all are written beside their places before the first is replaced, and where one cannot
/// be written, none is changed.
void write_files(const std::vector<std::pair<std::filesystem::path, std::string>>& files);

/// Has a write that exceeds the limit on file sizes (ulimit -f) fail, as a write to a full disk does, where it would
/// end the program.
void let_writes_fail();

/// Throws std::runtime_error where standard output could not take what was printed.
void check_standard_output();

}  // namespace modgen
