// The tokenizer that a .model file and the tokenizer_config.json next to it define, as in transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/tokenizer/sentencepiece/model_file.h"

namespace modular {

/// A token that is matched in a text before the text is split into pieces.
struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;
  bool takes_left = false, takes_right = false;  // also matches white space on that side
};

/// Whether a space is inserted before the first word of a text, or of each part between added tokens.
enum class Prefix { never, at_the_beginning, every_part };

struct Definition {
  ModelFile file;
  std::vector<std::string> tokens;  // by id: pieces and added tokens
  std::vector<int32_t> ids;         // id of each piece
  std::vector<AddedToken> added;

  Spaces spaces = Spaces::as_given;
  Prefix prefix = Prefix::at_the_beginning;
  std::vector<int32_t> before, after;  // ids put around a text
  std::vector<int32_t> between;        // after the first text of a pair, instead of `after`; includes the ids that
                                       // begin the second text
  bool second_has_type = false;        // whether ids of the second text, and the ids around it, have type 1

  std::optional<int32_t> end_of_text, padding, mask;
  bool pads_left = false, truncates_left = false;
  bool splits_special = false;  // whether special tokens in a text are encoded as text
  bool gives_types = false;

  /// Whether the id is a special token, which decoding omits.
  bool is_special(int32_t id) const;
};

/// Reads `model`; `config` is tokenizer_config.json's object, or empty. Throws std::runtime_error if transformers' ids
/// cannot be reproduced exactly.
Definition define_tokenizer(const std::string& model, const nlohmann::json& config);

}  // namespace modular
