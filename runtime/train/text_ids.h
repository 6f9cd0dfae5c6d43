// Conversion between text and a model's ids: bytes, or a tokenizer.
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
  /// Bytes if `tokenizer` is empty. Throws ConfigError if it cannot be opened.
  TextIds(const std::filesystem::path& tokenizer, const std::string& python);

  /// The ids of a prompt, without the tokenizer's suffix tokens; in a `chat`, the ids of a user message to answer.
  /// Throws ConfigError if there are none.
  std::vector<int64_t> prompt(const std::string& text, bool chat);

  /// The ids that end a text: the tokenizer's own, and eos_token_id of generation_config.json and config.json in its
  /// folder. Empty for bytes.
  std::vector<int64_t> ends() const;

  std::string text(const std::vector<int64_t>& ids);

 private:
  std::filesystem::path folder_;
  std::optional<Tokenizer> tokenizer_;
};

/// Decodes generated ids incrementally into the text after a prompt.
class ContinuedText {
 public:
  ContinuedText(TextIds& texts, std::vector<int64_t> prompt);

  /// The text that becomes certain with one more id, in complete characters.
  std::string add(int64_t id);
  /// The remaining text.
  std::string rest();

 private:
  TextIds& texts_;
  std::vector<int64_t> ids_;
  size_t shown_;  // bytes already returned of the text of ids_
};

}  // namespace modular
