// Reads Sentence Transformers' tokenization options: prompts and the maximum length.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modular {

struct SentenceSettings {
  std::vector<std::string> prompts;  // one per text column; empty if no column has one
  std::optional<int64_t> longest;    // maximum number of ids of a text with its prompt
  std::string note;                  // to print; empty if the folder has no such options
};

/// Reads a tokenizer's folder for `columns` text columns. `names` are prompt names, one for all columns or one per
/// column; "" means no prompt. Without names the folder's default prompt is used. `longest` is at most `positions`.
/// Throws ConfigError for an unknown name or an invalid file.
SentenceSettings read_sentence_settings(const std::filesystem::path& folder, const std::vector<std::string>& names,
                                        size_t columns, std::optional<int64_t> positions);

}  // namespace modular
