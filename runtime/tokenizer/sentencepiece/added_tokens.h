// Texts as parts: added tokens, and what lies between them.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/tokenizer/sentencepiece/definition.h"

namespace modular {

struct Part {
  const AddedToken* token = nullptr;  // null: text
  std::string_view text;
  bool is_first = false;  // it begins with the text
};

class AddedTokens {
 public:
  explicit AddedTokens(const Definition& definition);

  /// The parts of a text, none of them empty: the leftmost token counts, and of those that begin there the longest.
  std::vector<Part> parts(std::string_view text) const;

 private:
  std::vector<const AddedToken*> by_first_[256];  // byte; the longest first
};

/// Whether a text begins or ends with white space, as Unicode has it, and how many bytes that has; 0 for none.
size_t space_at_begin(std::string_view text);
size_t space_at_end(std::string_view text);

/// All characters that are white space, in UTF-8.
const std::vector<std::string>& white_space();

}  // namespace modular
