// What a model's parameters are called in the files of transformers, and how they are cut there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/registry.h"

namespace modular {

/// parameter[offset, offset + shape), which a file holds as one tensor.
struct StateDictPiece {
  std::string name;                 // in the file
  std::vector<int64_t> offset;      // in the parameter
  std::vector<int64_t> shape;       // of that slice
  std::vector<int64_t> file_shape;  // of the file's tensor: `shape`, without the leading 1 of an indexed piece
  // Which of equal parts of the file's tensor this is, along its first dimension, and of how many.
  int64_t part = 0, parts = 1;
};

/// The pieces in which `entry`'s files hold the parameter `name` of `shape`: disjoint, and together all of it. One
/// piece of the parameter's own name where the entry says nothing else.
std::vector<StateDictPiece> state_dict_pieces(const Entry& entry, const std::string& name,
                                              const std::vector<int64_t>& shape);

/// The same for each way in which files of some release hold it; the current ones first.
std::vector<std::vector<StateDictPiece>> readable_pieces(const Entry& entry, const std::string& name,
                                                         const std::vector<int64_t>& shape);

}  // namespace modular
