// The tokenizer that a .model file and the tokenizer_config.json beside it define, as transformers reads the two.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/sentencepiece/model_file.h"

namespace modular {

/// A token that is looked for in a text before the text is cut into pieces.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;
  bool takes_left = false, takes_right = false;  // the white space beside it too
};

/// When a text, or a part of it between added tokens, gets a space before its first word.
enum class Prefix { never, at_the_beginning, every_part };

struct Definition {
  ModelFile file;
  std::vector<std::string> tokens;  // by id: pieces and what was added
  std::vector<int32_t> ids;         // of each piece
  std::vector<AddedToken> added;

  Spaces spaces = Spaces::as_given;
  Prefix prefix = Prefix::at_the_beginning;
  std::vector<int32_t> before, after;  // the ids around a text
  std::vector<int32_t> between;  // those after the first text of a pair, in place of `after`, with what the second
                                 // begins with
  bool second_has_type = false;  // ids of the second text, and what is put around it, are of type 1

  std::optional<int32_t> end_of_text, padding, mask;
  bool pads_left = false, truncates_left = false;
  bool splits_special = false;  // special tokens in a text are text
  bool gives_types = false;

  /// Whether a token of that id is not shown.
  bool is_special(int32_t id) const;
};

/// Reads `model`; `config` is tokenizer_config.json's object, empty where there is none. Throws std::runtime_error in
/// one sentence where transformers' ids cannot be given exactly.
Definition define_tokenizer(const std::string& model, const nlohmann::json& config);

}  // namespace modular
