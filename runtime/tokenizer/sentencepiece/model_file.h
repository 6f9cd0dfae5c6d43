// Contents of a SentencePiece .model file that libsentencepiece does not expose, parsed from its ModelProto message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";  // stands for a space in pieces

struct Piece {
  /// Numbers of sentencepiece_model.proto.
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
  std::string character_map;  // replaces characters, like NFKC; empty for none
  std::string message;        // the serialized ModelProto without its self tests
};

/// Treatment of spaces by a model, regardless of its file. It replaces no other characters.
enum class Spaces {
  as_given,   // like other characters
  one_a_word  // before each word, including the first
};

/// Throws std::runtime_error if the file cannot be read or is not a SentencePiece model.
ModelFile read_model_file(const std::string& path);

/// The message for a SentencePieceProcessor that treats spaces this way.
std::string message_with(const ModelFile& file, Spaces spaces);

}  // namespace modular
