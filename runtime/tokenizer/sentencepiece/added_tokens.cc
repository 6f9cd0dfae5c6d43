#include "runtime/tokenizer/sentencepiece/added_tokens.h"

#include <algorithm>

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

}  // namespace modular
