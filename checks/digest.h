// Digests of bytes and files. They detect changes but do not authenticate; `modcheck --full` does not rely on them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace modgen {

/// The 128-bit XXH3 digest of `bytes` as 32 hexadecimal digits, the same on every machine.
std::string digest(std::string_view bytes);

/// The digest of a text with "\n" line endings, so that it does not change if git converts line endings.
std::string digest_of_text(std::string_view text);

/// One digest of the names and texts of all C++ sources below `folder`, in name order. Excludes its folder tool/, the
/// command-line programs, which do not affect generated files.
std::string digest_of_sources(const std::filesystem::path& folder);

}  // namespace modgen
