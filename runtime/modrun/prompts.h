// Files of texts that a model is to continue.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace modular {

/// The texts of `path`: its lines, or of a file that ends in .jsonl each line's "prompt". Throws ConfigError with the
/// line where one is none, and where there are none.
std::vector<std::string> read_prompts(const std::filesystem::path& path);

}  // namespace modular
