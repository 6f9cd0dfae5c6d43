// Prompt files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace modular {

/// The prompts in `path`: its lines or, in a .jsonl file, each line's "prompt". Throws ConfigError with the line of an
/// invalid prompt, or if there are no prompts.
std::vector<std::string> read_prompts(const std::filesystem::path& path);

}  // namespace modular
