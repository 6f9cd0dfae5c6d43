// Rows of ids as files of examples, which runtime/checkpoint/examples.h reads: padded to one length, labels as numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/prepare/row_plan.h"
#include "runtime/prepare/rows.h"

namespace modular {

/// What all files of examples have in common.
struct ExampleShape {
  int64_t ids = 0, targets = 0;            // of each text
  std::map<std::string, int64_t> classes;  // the number of each label that is a name; empty where labels are numbers
  bool real_labels = false;
  int64_t padding = 0;
  bool pads_left = false;
};

/// Reads the files of rows for their longest ones and their labels. Lengths are multiples of 8, unless that is more
/// than the model's positions, or as asked. Throws DataError where labels are both names and numbers that are no
/// integers.
ExampleShape shape_of(const std::vector<std::filesystem::path>& files, const RowPlan& plan, const RowLength& length);

/// Writes a file of examples in place of one that is there.
void write_examples(const std::filesystem::path& path, const Rows& rows, const RowPlan& plan,
                    const ExampleShape& shape);

}  // namespace modular
