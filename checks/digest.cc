#include "checks/digest.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace modgen {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const char* what, int error) {
  throw std::runtime_error(path.string() + ": " + what + ": " + std::strerror(error));
}

/// Writes a temporary beside `path`, whose name it returns.
fs::path write_beside(const fs::path& path, std::string_view bytes) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  const fs::path temporary = path.string() + ".new-" + std::to_string(getpid());
  std::ofstream out(temporary, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) {
    const int error = errno;
    std::error_code ignored;
    fs::remove(temporary, ignored);
    fail(path, "cannot be written", error);
  }
  return temporary;
}

}  // namespace

std::string digest(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (unsigned char byte : canonical.digest) {
    std::array<char, 3> digits;
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    text += digits.data();
  }
  return text;
}

std::optional<std::string> read_file_if_any(const fs::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail(path, "cannot be opened", errno);
  }
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  size_t count = 0;
  do {
    count = std::fread(buffer.data(), 1, buffer.size(), file);
    bytes.append(buffer.data(), count);
  } while (count == buffer.size());
  const int error = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (error) fail(path, "cannot be read", error);
  return bytes;
}

std::string read_file(const fs::path& path) {
  std::optional<std::string> bytes = read_file_if_any(path);
  if (!bytes) fail(path, "cannot be opened", ENOENT);
  return *std::move(bytes);
}

void write_file(const fs::path& path, std::string_view bytes) { fs::rename(write_beside(path, bytes), path); }

void write_files(const std::vector<std::pair<fs::path, std::string>>& files) {
  std::vector<std::pair<fs::path, std::optional<std::string>>> before;  // of those that were replaced
  std::vector<fs::path> temporaries;
  try {
    for (const auto& [path, bytes] : files) temporaries.push_back(write_beside(path, bytes));
    for (size_t index = 0; index < files.size(); ++index) {
      const fs::path& path = files[index].first;
      before.emplace_back(path, read_file_if_any(path));
      fs::rename(temporaries[index], path);
    }
  } catch (const std::exception&) {
    std::error_code ignored;
    for (const fs::path& temporary : temporaries) fs::remove(temporary, ignored);
    for (const auto& [path, bytes] : before) {
      if (bytes && read_file_if_any(path) != bytes) write_file(path, *bytes);
      if (!bytes) fs::remove(path, ignored);
    }
    throw;
  }
}

std::string digest_of_sources(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path extension = entry.path().extension(), name = entry.path().lexically_relative(folder);
    if (entry.is_regular_file() && (extension == ".h" || extension == ".cc") && *name.begin() != "tool")
      names.push_back(name.generic_string());
  }
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += name + ' ' + digest(read_file(folder / name)) + '\n';
  return digest(all);
}

}  // namespace modgen
