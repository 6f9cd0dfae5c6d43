// Splits texts into added tokens and the text between them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/tokenizer/sentencepiece/definition.h"

namespace modular {

struct Part {
  const AddedToken* token = nullptr;  // null: text
  std::string_view text;
  bool is_first = false;  // whether it begins the text
};

class AddedTokens {
 public:
  explicit AddedTokens(const Definition& definition);

  /// Non-empty parts of a text: the leftmost token wins, and of tokens that begin at the same position the longest.
  std::vector<Part> parts(std::string_view text) const;

 private:
  std::vector<const AddedToken*> by_first_[256];  // by first byte; the longest first
};

/// Number of bytes of Unicode white space at the beginning or end of a text; 0 if there is none.
size_t space_at_begin(std::string_view text);
size_t space_at_end(std::string_view text);

/// All white space characters, in UTF-8.
const std::vector<std::string>& white_space();

}  // namespace modular
