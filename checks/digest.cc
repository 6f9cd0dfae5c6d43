#include "checks/digest.h"

#include <algorithm>
#include <vector>

#include "generator/source/files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace modgen {

namespace fs = std::filesystem;

std::string digest(std::string_view bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes.data(), bytes.size()));
  std::string text;
  for (unsigned char byte : canonical.digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return text;
}

std::string digest_of_text(std::string_view text) {
  return text.find('\r') == std::string_view::npos ? digest(text) : digest(with_unix_lines(text));
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
  for (const std::string& name : names) all += name + ' ' + digest_of_text(read_file(folder / name)) + '\n';
  return digest(all);
}

}  // namespace modgen
