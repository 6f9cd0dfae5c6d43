// Converts texts to ids and back, with libsentencepiece.
#pragma once

#include <sentencepiece_processor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tokenizer/sentencepiece/added_tokens.h"
#include "runtime/tokenizer/sentencepiece/definition.h"
#include "runtime/tokenizer/sentencepiece/normalization.h"

namespace modular {

class Texts {
 public:
  /// Throws std::runtime_error if libsentencepiece rejects the model.
  explicit Texts(Definition definition);

  const Definition& definition() const { return definition_; }

  /// The ids of a text, without those around it.
  std::vector<int32_t> encode(std::string_view text) const;

  /// The text of ids, without special tokens.
  std::string decode(const std::vector<int64_t>& ids) const;

 private:
  void encode_part(const Part& part, std::vector<int32_t>& ids) const;
  std::string spaced(const Part& part) const;

  Definition definition_;
  AddedTokens added_;
  sentencepiece::SentencePieceProcessor processor_;
  Normalization normalization_;
};

}  // namespace modular
