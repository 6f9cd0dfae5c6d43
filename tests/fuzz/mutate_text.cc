#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace modular::fuzz {
namespace {

constexpr std::array<std::string_view, 42> kNumbers = {"0",
                                                       "-0",
                                                       "1",
                                                       "-1",
                                                       "2",
                                                       "3",
                                                       "7",
                                                       "127",
                                                       "255",
                                                       "256",
                                                       "1000",
                                                       "65535",
                                                       "65536",
                                                       "1048576",
                                                       "2147483647",
                                                       "2147483648",
                                                       "-2147483648",
                                                       "4294967295",
                                                       "4294967296",
                                                       "1000000000000",
                                                       "4611686018427387904",
                                                       "9223372036854775807",
                                                       "-9223372036854775807",
                                                       "9223372036854775808",
                                                       "-9223372036854775808",
                                                       "18446744073709551615",
                                                       "18446744073709551616",
                                                       "0.5",
                                                       "1.0",
                                                       "-0.0",
                                                       "1e-308",
                                                       "5e-324",
                                                       "1e18",
                                                       "1e19",
                                                       "1e308",
                                                       "-1e308",
                                                       "1e309",
                                                       "NaN",
                                                       "nan",
                                                       "Infinity",
                                                       "-Infinity",
                                                       "inf"};

constexpr std::array<std::string_view, 22> kSyntax = {"{",  "}",    "[",       "]",       ",",  ":",    "=", "\"",
                                                      "'",  "null", "true",    "false",   "\n", "\r\n", "#", " ",
                                                      "\t", "\\",   "\\u0000", "\\ud800", "..", "/"};

struct Range {
  size_t begin = 0, length = 0;
};

Range any_range(const std::string& text, size_t longest, Random& random) {
  const size_t begin = random.below(text.size());
  return {begin, std::min(text.size() - begin, random.below(longest) + 1)};
}

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-'; }
bool is_of_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == '-'; }

/// The runs of bytes for which `belongs` holds.
std::vector<Range> runs(const std::string& text, bool (*belongs)(char)) {
  std::vector<Range> found;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!belongs(text[at])) continue;
    if (at == 0 || !belongs(text[at - 1])) found.push_back({at, 0});
    ++found.back().length;
  }
  return found;
}

bool is_of_line(char c) { return c != '\n'; }

void replace_run(std::string& text, bool (*belongs)(char), std::string_view by, Random& random) {
  const std::vector<Range> found = runs(text, belongs);
  if (found.empty()) return;
  const Range chosen = random.pick(found);
  text.replace(chosen.begin, chosen.length, by);
}

std::string_view any_word(std::span<const std::string_view> words, Random& random) {
  return words.empty() || random.one_in(2) ? random.pick(kSyntax) : random.pick(words);
}

/// Replaces a word or a line of the text by another one.
void copy_run(std::string& text, bool (*belongs)(char), Random& random) {
  const std::vector<Range> found = runs(text, belongs);
  if (found.empty()) return;
  const Range from = random.pick(found);
  const std::string copied = text.substr(from.begin, from.length);
  replace_run(text, belongs, copied, random);
}

void change(std::string& text, std::span<const std::string_view> words, Random& random) {
  if (text.empty()) return void(text = any_word(words, random));
  const size_t at = random.below(text.size());
  const Range range = any_range(text, 40, random);
  switch (random.below(14)) {
    case 0:
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(random.next());
      break;
    case 2:
      text.insert(at, 1, static_cast<char>(random.next()));
      break;
    case 3:
      text.erase(range.begin, range.length);
      break;
    case 4:
      text.insert(at, text.substr(range.begin, range.length));
      break;
    case 5:
      text.resize(at);  // cut off
      break;
    case 6:
    case 7:
    case 8:
      replace_run(text, is_of_number, number_at_limit(random), random);
      break;
    case 9:
      replace_run(text, is_of_word, any_word(words, random), random);
      break;
    case 10:
      text.insert(at, any_word(words, random));
      break;
    case 11:
      copy_run(text, is_of_word, random);
      break;
    case 12:
      copy_run(text, is_of_line, random);
      break;
    default:
      if (random.one_in(8)) text.insert(at, std::string(size_t{1} << random.below(14), random.pick("[{(\"a0 \n")));
  }
}

}  // namespace

std::string_view number_at_limit(Random& random) { return random.pick(kNumbers); }

std::string mutated_text(std::string text, std::span<const std::string_view> words, Random& random) {
  for (size_t left = size_t{1} << random.below(4); left > 0; --left) change(text, words, random);
  return text;
}

}  // namespace modular::fuzz
