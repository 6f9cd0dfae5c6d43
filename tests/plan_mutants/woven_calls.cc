#include "tests/plan_mutants/woven_calls.h"

#include <regex>
#include <stdexcept>

namespace modgen {
namespace {

Change replacement(size_t begin, size_t end, std::string text) {
  return {{0, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, std::move(text)};
}

/// The position of the next character of `wanted` after `begin` that is not inside nested brackets.
size_t find_outside(const std::string& text, size_t begin, std::string_view wanted) {
  int depth = 0;
  for (size_t at = begin; at < text.size(); ++at) {
    if (depth == 0 && wanted.find(text[at]) != std::string_view::npos) return at;
    if (text[at] == '(' || text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == ')' || text[at] == '}' || text[at] == ']') --depth;
  }
  throw std::runtime_error("a woven call does not end");
}

}  // namespace

std::vector<WovenCall> woven_calls(const std::string& family, const std::string& text) {
  static const std::regex pattern(
      R"((tp|pp)::(enter|shared|exit|reduce|part|whole|whole_size|partial|embedding|layer_norm|cross_entropy|cross_entropy_outputs|rms_norm|alibi_slopes|gather|local|is_first|is_last|first_stack|second_stack)\()"
      R"(|\b(\w+)_tp\b(?! =)|\b(\w+)->(\w+)_on_shards\()");
  std::vector<WovenCall> calls;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), none; match != none; ++match) {
    const std::string found = match->str(), name = (*match)[2];
    const auto begin = static_cast<size_t>(match->position()), end = begin + found.size();
    const auto line = 1 + std::count(text.begin(), text.begin() + match->position(), '\n');
    const size_t column = begin - (text.rfind('\n', begin) + 1) + 1;
    const bool is_read = (*match)[3].matched, is_on_shards = (*match)[4].matched;
    WovenCall call;
    call.name = family + ".h:" + std::to_string(line) + ":" + std::to_string(column) + " " +
                (is_read ? found : found.substr(0, found.size() - 1));
    call.line = static_cast<int>(line);
    const std::string quoted = '"' + call.name + '"';
    if (is_read) {
      const std::string variable = (*match)[3];
      call.leaving_out = {replacement(begin, end, variable)};
      call.switching = {replacement(begin, end, "woven::read(" + quoted + ", " + variable + ", " + found + ")")};
    } else if (is_on_shards) {
      const size_t close = find_outside(text, end, ")");
      const std::string plain = (*match)[4].str() + "->" + (*match)[5].str() + "(";
      call.leaving_out = {replacement(begin, end, plain)};
      call.switching = {
          replacement(begin, begin,
                      "(woven::is_removed(" + quoted + ") ? " + plain + text.substr(end, close - end) + ") : "),
          replacement(close, close, ")")};
    } else {
      const bool is_empty = text[end] == ')';
      call.switching = {replacement(begin, begin, "woven::"), replacement(end, end, quoted + (is_empty ? "" : ", "))};
      if (is_empty) {
        call.leaving_out = {replacement(begin, end + 1, "true")};
      } else if (name == "second_stack") {
        call.leaving_out = {replacement(begin, find_outside(text, end, ")") + 1, "true")};
      } else if (name == "cross_entropy" || name == "cross_entropy_outputs" || name == "rms_norm" ||
                 name == "alibi_slopes") {
        call.leaving_out = {replacement(begin, begin + 4, "")};
      } else {
        const size_t stop = find_outside(text, end, ",)"), close = find_outside(text, end, ")");
        const bool names_dimension = text[stop] == ',' && close == stop + 3;  // , 1
        if (text[stop] == ',' && !names_dimension)                            // called with a layer and a value
          call.leaving_out = {replacement(begin, end, ""), replacement(stop, stop + 2, "(")};
        else
          call.leaving_out = {replacement(begin, end, found == "pp::local(" ? "*" : ""),
                              replacement(stop, close + 1, "")};
      }
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace modgen
