// What the files of Sentence Transformers say of how texts become ids: prompts before them, and how long they may be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace modular {

struct SentenceSettings {
  std::vector<std::string> prompts;  // of each column of texts; empty where no column has one
  std::optional<int64_t> longest;    // what ids of a text, of its prompt too, are cut to
  std::string note;                  // for a program to print; empty where the folder says nothing
};

/// Of a tokenizer's folder, for so many columns of texts. `names` are the prompts' names, one for all columns or one
/// each, where "" is none; without names it is the default one that the folder names. Nothing is longer than
/// `positions`. Throws ConfigError where a name is no prompt's, or a file is not what it should be.
SentenceSettings read_sentence_settings(const std::filesystem::path& folder, const std::vector<std::string>& names,
                                        size_t columns, std::optional<int64_t> positions);

}  // namespace modular
