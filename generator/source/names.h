// How a family is spelled in identifiers, strings and prose, and how text of one family is rewritten for another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace modgen {

struct Names {
  std::string prefix;      // of classes: "MetaClip2"
  std::string snake;       // of the file, the namespace and functions: "metaclip_2"
  std::string upper;       // of macro-like constants: "METACLIP_2"
  std::string model_type;  // as a string: "metaclip_2"
  std::string title;       // as prose writes it: "CLIP"
  bool has_title = false;  // it was given; else it is the prefix, and prose may use the snake-case name as well
};

/// `word` with the name of family `from` in it replaced by that of `to`: LlamaMLP, kLlamaLimit, llama_helper,
/// LLAMA_MAX.
std::string renamed_word(const std::string& word, const Names& from, const Names& to);

/// The text of a comment or of a string literal with its words renamed, and the family's title too.
std::string renamed_prose(std::string_view text, bool is_comment, const Names& from, const Names& to);

/// Which of `names` `name` is probably meant to be: one that differs in a few characters; empty where there is none.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

/// "LlavaVision" gives "llava_vision".
std::string snake_case(std::string_view camel);
std::string upper_case(std::string text);

/// The name after the last "::", template arguments aside: "nn::Linear" gives "Linear".
std::string_view unqualified(std::string_view name);

}  // namespace modgen
