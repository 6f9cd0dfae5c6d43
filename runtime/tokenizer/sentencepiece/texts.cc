#include "runtime/tokenizer/sentencepiece/texts.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

namespace modular {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

/// Number of bytes of the UTF-8 character at the beginning; 0 if there is none.
size_t character_at(std::string_view bytes) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const unsigned first = byte(0);
  const size_t size = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (size == 0 || size > bytes.size()) return 0;
  for (size_t at = 1; at < size; ++at)
    if ((byte(at) & 0xC0) != 0x80) return 0;
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F))
    return 0;
  return size;
}

/// Bytes as text; if they are not valid UTF-8, one replacement character per byte.
std::string text_of_bytes(const std::string& bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const size_t size = character_at(rest);
    if (size == 0) {
      std::string signs;
      for (size_t byte = 0; byte < bytes.size(); ++byte) signs += kReplacement;
      return signs;
    }
    rest.remove_prefix(size);
  }
  return bytes;
}

/// Value of a byte token like "<0x41>"; -1 for other tokens.
int to_byte(const std::string& token) {
  int byte = -1;
  if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>')
    std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return byte;
}

}  // namespace

Texts::Texts(Definition definition)
    : definition_(std::move(definition)), added_(definition_), normalization_(definition_.file.character_map) {
  const auto status = processor_.LoadFromSerializedProto(message_with(definition_.file, definition_.spaces));
  if (!status.ok()) throw std::runtime_error(fmt::format("libsentencepiece rejects the model: {}", status.ToString()));
}

/// A part as the model should see it: transformers treats all white space as spaces if words are encoded one by one.
std::string Texts::spaced(const Part& part) const {
  std::string text(part.text);
  if (definition_.spaces == Spaces::one_a_word) {
    text = normalization_(text);
    for (const std::string& space : white_space()) replace_all(text, space, " ");
    return text;
  }
  replace_all(text, " ", kSpaceSign);
  const bool is_prefixed =
      definition_.prefix == Prefix::every_part || (definition_.prefix == Prefix::at_the_beginning && part.is_first);
  return is_prefixed && !text.starts_with(kSpaceSign) ? std::string(kSpaceSign) + text : text;
}

void Texts::encode_part(const Part& part, std::vector<int32_t>& ids) const {
  if (part.token) {
    ids.push_back(part.token->id);
    return;
  }
  std::vector<int> pieces;
  const auto status = processor_.Encode(spaced(part), &pieces);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  for (const int piece : pieces) ids.push_back(definition_.ids.at(static_cast<size_t>(piece)));
}

std::vector<int32_t> Texts::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  for (const Part& part : added_.parts(text)) encode_part(part, ids);
  return ids;
}

std::string Texts::decode(const std::vector<int64_t>& ids) const {
  const bool is_by_word = definition_.spaces == Spaces::one_a_word;
  std::string text, bytes;
  bool is_first = true;
  for (const int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(definition_.tokens.size())) continue;
    if (definition_.is_special(static_cast<int32_t>(id))) continue;
    std::string token = definition_.tokens[static_cast<size_t>(id)];
    if (const int byte = is_by_word ? -1 : to_byte(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      is_first = false;
      continue;
    }
    text += text_of_bytes(std::exchange(bytes, {}));
    replace_all(token, kSpaceSign, is_by_word && is_first ? "" : " ");
    text += token;
    is_first = false;
  }
  text += text_of_bytes(bytes);
  if (!is_by_word && definition_.prefix != Prefix::never && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace modular
