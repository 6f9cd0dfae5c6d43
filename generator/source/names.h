// Spellings of a family in identifiers, strings and prose, and the rewriting of one family's text for another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace modgen {

struct Names {
  std::string prefix;      // class prefix: "MetaClip2"
  std::string snake;       // name of the file, the namespace and in functions: "metaclip_2"
  std::string upper;       // in macro-like constants: "METACLIP_2"
  std::string model_type;  // in strings: "metaclip_2"
  std::string title;       // in prose: "CLIP"
  // The title is explicit; otherwise it is the prefix, and prose may use the snake-case name as well.
  bool has_title = false;
};

/// `word` with the name of family `from` replaced by that of `to`: LlamaMLP, kLlamaLimit, llama_helper, LLAMA_MAX.
std::string renamed_word(const std::string& word, const Names& from, const Names& to);

/// `text` with each of its words renamed: the name of an operator has those of the classes that it takes.
std::string renamed_words(std::string_view text, const Names& from, const Names& to);

/// The text of a comment or a string literal with its words and the family's title renamed.
std::string renamed_prose(std::string_view text, bool is_comment, const Names& from, const Names& to);

/// The name in `names` that `name` probably misspells: one that differs in a few characters; empty if none does.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

/// "LlavaVision" gives "llava_vision".
std::string snake_case(std::string_view camel);
std::string upper_case(std::string text);

/// The name after the last "::", without template arguments: "nn::Linear" gives "Linear".
std::string_view unqualified(std::string_view name);

}  // namespace modgen
