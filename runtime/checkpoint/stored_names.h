// Mapping of a model's parameters to the tensors in transformers' files (names and splits).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// parameter[offset, offset + shape), which a file holds as one tensor.
struct StateDictPiece {
  std::string name;                 // tensor name in the file
  std::vector<int64_t> offset;      // offset in the parameter
  std::vector<int64_t> shape;       // shape of the slice
  std::vector<int64_t> file_shape;  // shape of the file's tensor: `shape`, without the leading 1 of an indexed piece
  // Which of `parts` equal parts of the file's tensor this piece is, along its first dimension.
  int64_t part = 0, parts = 1;
};

/// The pieces of the parameter `name` of shape `shape` in `entry`'s files: disjoint, and together the full parameter.
/// One piece of the parameter's own name by default.
std::vector<StateDictPiece> state_dict_pieces(const Entry& entry, const std::string& name,
                                              const std::vector<int64_t>& shape);

/// The same for each layout that files of some release have; the current layout first.
std::vector<std::vector<StateDictPiece>> readable_pieces(const Entry& entry, const std::string& name,
                                                         const std::vector<int64_t>& shape);

}  // namespace modular
