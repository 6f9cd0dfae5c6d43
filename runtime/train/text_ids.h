// Texts that a model continues, as its ids and back: a byte each, or by a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tokenizer/tokenizer.h"

namespace modular {

class TextIds {
 public:
  /// Bytes where `tokenizer` is empty. Throws ConfigError where that cannot be opened.
  TextIds(const std::filesystem::path& tokenizer, const std::string& python);

  /// The ids of a text that is to be continued: without those that the tokenizer puts after a text; in a `chat`, those
  /// of a user's message that is to be answered. Throws ConfigError where there are none.
  std::vector<int64_t> prompt(const std::string& text, bool chat);

  /// The ids that end a text: the tokenizer's own, and eos_token_id of generation_config.json and config.json in its
  /// folder. None for bytes.
  std::vector<int64_t> ends() const;

  std::string text(const std::vector<int64_t>& ids);

 private:
  std::filesystem::path folder_;
  std::optional<Tokenizer> tokenizer_;
};

/// What ids add to the text of a prompt, as they come.
class ContinuedText {
 public:
  ContinuedText(TextIds& texts, std::vector<int64_t> prompt);

  /// The text that is certain with one more id: not half of a character.
  std::string add(int64_t id);
  /// What was held back.
  std::string rest();

 private:
  TextIds& texts_;
  std::vector<int64_t> ids_;
  size_t shown_;  // bytes of the text of ids_
};

}  // namespace modular
