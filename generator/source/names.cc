#include "generator/source/names.h"

#include <llvm/ADT/StringRef.h>

#include <cctype>

namespace modgen {
namespace {

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)); }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Replaces `from` by `to` if it is a full word or one of its parts between underscores.
std::string rename_parts(const std::string& word, const std::string& from, const std::string& to) {
  std::string result;
  for (size_t at = 0; at < word.size();) {
    const bool begins = at == 0 || word[at - 1] == '_';
    const size_t end = at + from.size();
    if (begins && word.compare(at, from.size(), from) == 0 && (end == word.size() || word[end] == '_')) {
      result += to;
      at = end;
    } else {
      result += word[at++];
    }
  }
  return result;
}

}  // namespace

std::string upper_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string nearest;
  auto least = static_cast<unsigned>(2 + name.size() / 6);
  for (const std::string& other : names)
    if (const unsigned distance = llvm::StringRef(name).edit_distance(other); distance > 0 && distance < least) {
      nearest = other;
      least = distance;
    }
  return nearest;
}

std::string snake_case(std::string_view camel) {
  std::string result;
  for (size_t at = 0; at < camel.size(); ++at) {
    const bool begins = at > 0 && is_upper(camel[at]) &&
                        (!is_upper(camel[at - 1]) ||
                         (at + 1 < camel.size() && std::islower(static_cast<unsigned char>(camel[at + 1]))));
    if (begins) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(camel[at])));
  }
  return result;
}

std::string_view unqualified(std::string_view name) {
  name = name.substr(0, name.find('<'));
  const size_t colon = name.rfind("::");
  return colon == std::string_view::npos ? name : name.substr(colon + 2);
}

std::string renamed_word(const std::string& word, const Names& from, const Names& to) {
  for (const size_t skip : {size_t{0}, size_t{1}}) {  // LlamaMLP, kLlamaLimit
    if (skip == 1 && word[0] != 'k') break;
    const size_t end = skip + from.prefix.size();
    if (from.prefix.empty() || word.compare(skip, from.prefix.size(), from.prefix) != 0) continue;
    // CLIPMLP, but CLIP_MAX if the prefix itself is upper case.
    if (end == word.size() || is_upper(word[end]) || (word[end] == '_' && from.prefix != from.upper))
      return word.substr(0, skip) + to.prefix + word.substr(end);
  }
  return rename_parts(rename_parts(word, from.snake, to.snake), from.upper, to.upper);
}

std::string renamed_words(std::string_view text, const Names& from, const Names& to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    if (end > at) result += renamed_word(std::string(text.substr(at, end - at)), from, to);
    if (end < text.size()) result += text[end++];
    at = end;
  }
  return result;
}

std::string renamed_prose(std::string_view text, bool is_comment, const Names& from, const Names& to) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      result += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word(text.substr(at, end - at));
    const bool in_path = (at > 0 && text[at - 1] == '/') || text.substr(at, end - at + 2) == word + "::";
    if (word == from.title || word == from.prefix)
      result += to.title;
    else if (word == from.model_type && !is_comment)
      result += to.model_type;
    else if (word == from.snake && is_comment && !in_path && (from.has_title || to.has_title))
      result += word;  // probably an ordinary English word
    else
      result += renamed_word(word, from, to);
    at = end;
  }
  return result;
}

}  // namespace modgen
