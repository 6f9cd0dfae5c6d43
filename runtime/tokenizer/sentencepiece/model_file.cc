#include "runtime/tokenizer/sentencepiece/model_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace modular {
namespace {

// Fields of sentencepiece_model.proto.
enum ModelField : uint64_t { kPieces = 1, kTrainer = 2, kNormalizer = 3, kSelfTest = 4 };
enum PieceField : uint64_t { kPieceText = 1, kPieceType = 3 };
enum TrainerField : uint64_t { kAlgorithm = 3, kSpaceIsSuffix = 24, kByteFallback = 35 };
enum NormalizerField : uint64_t { kCharacterMap = 2 };

struct NoMessage : std::runtime_error {
  NoMessage() : std::runtime_error("not a protobuf message") {}
};

struct Field {
  uint64_t number = 0;
  uint64_t value = 0;       // for integers
  std::string_view bytes;   // for strings and messages
  std::string_view record;  // the complete field as encoded in the message
};

/// Reads protobuf's wire format, field by field.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  std::optional<Field> next() {
    if (rest_.empty()) return {};
    const std::string_view begin = rest_;
    const uint64_t tag = integer();
    Field field{.number = tag >> 3};
    switch (tag & 7) {
      case 0:
        field.value = integer();
        break;
      case 1:
        take(8);
        break;
      case 2:
        field.bytes = take(integer());
        break;
      case 5:
        take(4);
        break;
      default:
        throw NoMessage();
    }
    field.record = begin.substr(0, begin.size() - rest_.size());
    return field;
  }

 private:
  std::string_view take(uint64_t bytes) {
    if (bytes > rest_.size()) throw NoMessage();
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  uint64_t integer() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    throw NoMessage();
  }

  std::string_view rest_;
};

Piece read_piece(std::string_view message) {
  Piece piece;
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == kPieceText) piece.text = field->bytes;
    if (field->number == kPieceType) piece.type = static_cast<Piece::Type>(field->value);
  }
  return piece;
}

void read_trainer(std::string_view message, ModelFile& file) {
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == kAlgorithm) file.algorithm = static_cast<ModelFile::Algorithm>(field->value);
    if (field->number == kSpaceIsSuffix) file.space_is_suffix = field->value != 0;
    if (field->number == kByteFallback) file.byte_fallback = field->value != 0;
  }
}

ModelFile read_message(std::string_view message) {
  ModelFile file;
  Fields fields(message);
  while (const auto field = fields.next()) {
    if (field->number == kPieces) file.pieces.push_back(read_piece(field->bytes));
    if (field->number == kTrainer) read_trainer(field->bytes, file);
    if (field->number == kNormalizer) {
      Fields of_normalizer(field->bytes);
      while (const auto one = of_normalizer.next())
        if (one->number == kCharacterMap) file.character_map = one->bytes;
    }
    // Drop the self tests: they fail with another treatment of spaces.
    if (field->number != kSelfTest) file.message += field->record;
  }
  if (file.pieces.empty()) throw NoMessage();
  return file;
}

}  // namespace

ModelFile read_model_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(fmt::format("{} cannot be opened: {}", path, std::strerror(errno)));
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  try {
    return read_message(bytes);
  } catch (const NoMessage&) {
    throw std::runtime_error(
        fmt::format("{} is not a SentencePiece model, or was cut off: write or copy it again", path));
  }
}

std::string message_with(const ModelFile& file, Spaces spaces) {
  // The last occurrence of a field wins: here a NormalizerSpec, whose fields 2 to 5 are the map of characters,
  // add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces.
  using namespace std::string_view_literals;
  constexpr std::string_view as_given = "\x1A\x08\x12\x00\x18\x00\x20\x00\x28\x00"sv,
                             one_a_word = "\x1A\x08\x12\x00\x18\x01\x20\x01\x28\x01"sv;
  return file.message + std::string(spaces == Spaces::as_given ? as_given : one_a_word);
}

}  // namespace modular
