#include "runtime/tokenizer/sentencepiece/texts.h"

#include <fmt/format.h>
#include <unicode/utext.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace modular {

const std::vector<std::string>& white_space() {
  static const std::vector<std::string> characters = {" ",
                                                      "\t",
                                                      "\n",
                                                      "\v",
                                                      "\f",
                                                      "\r",
                                                      "\xC2\x85",
                                                      "\xC2\xA0",
                                                      "\xE1\x9A\x80",
                                                      "\xE2\x80\x80",
                                                      "\xE2\x80\x81",
                                                      "\xE2\x80\x82",
                                                      "\xE2\x80\x83",
                                                      "\xE2\x80\x84",
                                                      "\xE2\x80\x85",
                                                      "\xE2\x80\x86",
                                                      "\xE2\x80\x87",
                                                      "\xE2\x80\x88",
                                                      "\xE2\x80\x89",
                                                      "\xE2\x80\x8A",
                                                      "\xE2\x80\xA8",
                                                      "\xE2\x80\xA9",
                                                      "\xE2\x80\xAF",
                                                      "\xE2\x81\x9F",
                                                      "\xE3\x80\x80"};
  return characters;
}

size_t space_at_begin(std::string_view text) {
  for (const std::string& character : white_space())
    if (text.starts_with(character)) return character.size();
  return 0;
}

size_t space_at_end(std::string_view text) {
  for (const std::string& character : white_space())
    if (text.ends_with(character)) return character.size();
  return 0;
}

AddedTokens::AddedTokens(const Definition& definition) {
  for (const AddedToken& token : definition.added)
    if (!(token.special && definition.splits_special))
      by_first_[static_cast<unsigned char>(token.text.front())].push_back(&token);
  for (auto& tokens : by_first_)
    std::ranges::stable_sort(tokens, std::ranges::greater(),
                             [](const AddedToken* token) { return token->text.size(); });
}

std::vector<Part> AddedTokens::parts(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;  // end of the text that the parts cover
  const auto add_text = [&](size_t end) {
    if (end > done) parts.push_back({nullptr, text.substr(done, end - done), done == 0});
  };
  for (size_t at = 0; at < text.size();) {
    const auto& tokens = by_first_[static_cast<unsigned char>(text[at])];
    const auto found =
        std::ranges::find_if(tokens, [&](const AddedToken* token) { return text.substr(at).starts_with(token->text); });
    if (found == tokens.end()) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + (*found)->text.size();
    at = end;
    if ((*found)->takes_left)
      while (const size_t space = space_at_end(text.substr(done, begin - done))) begin -= space;
    if ((*found)->takes_right)
      while (const size_t space = space_at_begin(text.substr(end))) end += space;
    begin = std::max(begin, done);
    add_text(begin);
    parts.push_back({*found, text.substr(begin, end - begin), begin == 0});
    done = std::max(done, end);
  }
  add_text(text.size());
  return parts;
}

namespace {

constexpr size_t kShortGrapheme = 6;  // bytes

[[noreturn]] void reject_map() {
  throw std::runtime_error("the model's map of characters is damaged: write or copy the file again");
}

/// A unit of the double array, in the layout of Darts-clone.
struct Unit {
  uint32_t bits;

  bool has_leaf() const { return (bits >> 8 & 1) == 1; }
  uint32_t value() const { return bits & 0x7FFFFFFFU; }
  uint32_t label() const { return bits & 0x800000FFU; }
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200U) >> 6); }
};

/// Number of bytes of the UTF-8 character that begins with `first`.
size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

Normalization::Normalization(std::string_view character_map) {
  if (character_map.empty()) return;
  uint32_t bytes = 0;
  if (character_map.size() < sizeof(bytes)) reject_map();
  std::memcpy(&bytes, character_map.data(), sizeof(bytes));
  character_map.remove_prefix(sizeof(bytes));
  if (bytes == 0 || bytes % sizeof(uint32_t) != 0 || bytes > character_map.size()) reject_map();
  trie_.resize(bytes / sizeof(uint32_t));
  std::memcpy(trie_.data(), character_map.data(), bytes);
  replacements_ = character_map.substr(bytes);
  UErrorCode status = U_ZERO_ERROR;
  graphemes_.reset(ubrk_open(UBRK_CHARACTER, "", nullptr, 0, &status));
  if (U_FAILURE(status)) throw std::runtime_error(std::string("ICU cannot find graphemes: ") + u_errorName(status));
}

std::optional<std::string_view> Normalization::replacement(std::string_view characters) const {
  const auto unit = [&](size_t at) {
    if (at >= trie_.size()) reject_map();
    return Unit{trie_[at]};
  };
  size_t node = unit(0).offset();
  for (const char character : characters) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte == 0) return {};
    node ^= byte;
    const Unit here = unit(node);
    if (here.label() != byte) return {};
    node ^= here.offset();
    if (!here.has_leaf()) continue;
    const size_t begin = unit(node).value();
    if (begin > replacements_.size()) reject_map();
    return std::string_view(replacements_).substr(begin, replacements_.find('\0', begin) - begin);
  }
  return {};
}

void Normalization::append(std::string_view grapheme, std::string& text) const {
  if (grapheme.size() < kShortGrapheme)
    if (const auto replaced = replacement(grapheme)) {
      text += *replaced;
      return;
    }
  while (!grapheme.empty()) {
    const std::string_view character = grapheme.substr(0, character_size(grapheme.front()));
    text += replacement(character).value_or(character);
    grapheme.remove_prefix(character.size());
  }
}

std::string Normalization::operator()(std::string_view text) const {
  if (trie_.empty()) return std::string(text);
  UErrorCode status = U_ZERO_ERROR;
  UText* of_icu = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
  const std::unique_ptr<UText, decltype(&utext_close)> closed(of_icu, utext_close);
  ubrk_setUText(graphemes_.get(), of_icu, &status);
  if (U_FAILURE(status)) throw std::runtime_error(std::string("ICU rejects the text: ") + u_errorName(status));
  std::string normalized;
  int32_t begin = ubrk_first(graphemes_.get());
  for (int32_t end; (end = ubrk_next(graphemes_.get())) != UBRK_DONE; begin = end)
    append(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), normalized);
  return normalized;
}

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
