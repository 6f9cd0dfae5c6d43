// What a SentencePiece .model file says that libsentencepiece does not tell: its message ModelProto, read by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // in pieces, for a space

struct Piece {
  /// As sentencepiece_model.proto numbers them.
  enum class Type : uint64_t { normal = 1, unknown, control, user_defined, unused, byte };
  std::string text;
  Type type = Type::normal;
};

struct ModelFile {
  enum class Algorithm : uint64_t { unigram = 1, bpe, word, character };
  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool space_is_suffix = false;
  std::string character_map;  // by which characters are replaced, as by NFKC; empty for none
  std::string message;        // the serialized ModelProto without its own tests
};

/// How a model is to treat spaces, whatever its file says of it. It replaces no characters.
enum class Spaces {
  as_given,   // as other characters
  one_a_word  // before each word, also the first
};

/// Throws std::runtime_error where the file cannot be read or is no SentencePiece model.
ModelFile read_model_file(const std::string& path);

/// The message for a SentencePieceProcessor which treats spaces so.
std::string message_with(const ModelFile& file, Spaces spaces);

}  // namespace modular
