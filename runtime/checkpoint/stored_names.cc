#include "runtime/checkpoint/stored_names.h"

#include <c10/util/Exception.h>

#include <optional>
#include <string_view>

namespace modular {
namespace {

/// The components of `name` that match the pattern's "*"; nullopt if it does not match.
std::optional<std::vector<std::string_view>> captures(std::string_view pattern, std::string_view name) {
  std::vector<std::string_view> found;
  while (true) {
    const size_t pattern_end = pattern.find('.'), name_end = name.find('.');
    const std::string_view wanted = pattern.substr(0, pattern_end), given = name.substr(0, name_end);
    if (wanted == "**") {
      found.push_back(name);
      return found;
    }
    if (wanted == "*")
      found.push_back(given);
    else if (wanted != given)
      return {};
    if ((pattern_end == std::string_view::npos) != (name_end == std::string_view::npos)) return {};
    if (pattern_end == std::string_view::npos) return found;
    pattern.remove_prefix(pattern_end + 1);
    name.remove_prefix(name_end + 1);
  }
}

/// The pattern with its "*" and "#" replaced.
std::string filled(std::string_view pattern, const std::vector<std::string_view>& stars, int64_t index) {
  std::string text;
  size_t next = 0;
  for (size_t position = 0; position < pattern.size(); ++position) {
    const char c = pattern[position];
    if (c == '*') {
      text.append(stars.at(next++));
      if (pattern.substr(position).starts_with("**")) ++position;
    } else if (c == '#') {
      text.append(std::to_string(index));
    } else {
      text.push_back(c);
    }
  }
  return text;
}

/// Strips "[0/2]" from the end of the piece's name and sets `part` and `parts`.
void read_part_of_file(StateDictPiece& piece) {
  const size_t open = piece.name.rfind('['), slash = piece.name.rfind('/');
  if (!piece.name.ends_with(']') || open == std::string::npos) return;
  piece.part = std::stoll(piece.name.substr(open + 1));
  piece.parts = std::stoll(piece.name.substr(slash + 1));
  piece.file_shape.front() *= piece.parts;
  piece.name.resize(open);
}

std::vector<StateDictPiece> cut(const StoredAs& rule, const std::vector<std::string_view>& stars,
                                const std::vector<int64_t>& shape) {
  const auto parts = static_cast<int64_t>(rule.names.size());
  const bool indexed = rule.names.front().find('#') != std::string_view::npos;
  const size_t part_dim = indexed ? 1 : 0;
  TORCH_INTERNAL_ASSERT((parts == 1 && !indexed) || (shape.size() > part_dim && shape[part_dim] % parts == 0),
                        rule.parameter);
  std::vector<StateDictPiece> pieces;
  for (int64_t index = 0; index < (indexed ? shape[0] : 1); ++index)
    for (int64_t part = 0; part < parts; ++part) {
      StateDictPiece& piece = pieces.emplace_back();
      piece.name = filled(rule.names[static_cast<size_t>(part)], stars, index);
      piece.offset.assign(shape.size(), 0);
      piece.shape = shape;
      if (indexed) piece.offset[0] = index, piece.shape[0] = 1;
      if (parts > 1) {
        piece.shape[part_dim] /= parts;
        piece.offset[part_dim] += part * piece.shape[part_dim];
      }
      piece.file_shape.assign(piece.shape.begin() + (indexed ? 1 : 0), piece.shape.end());
      read_part_of_file(piece);
    }
  return pieces;
}

}  // namespace

std::vector<std::vector<StateDictPiece>> readable_pieces(const Entry& entry, const std::string& name,
                                                         const std::vector<int64_t>& shape) {
  std::vector<std::vector<StateDictPiece>> all;
  for (const StoredAs& rule : entry.stored_as)
    if (const auto stars = captures(rule.parameter, name)) all.push_back(cut(rule, *stars, shape));
  if (all.empty()) all.push_back({{name, std::vector<int64_t>(shape.size(), 0), shape, shape}});
  return all;
}

std::vector<StateDictPiece> state_dict_pieces(const Entry& entry, const std::string& name,
                                              const std::vector<int64_t>& shape) {
  return readable_pieces(entry, name, shape).front();
}

}  // namespace modular
