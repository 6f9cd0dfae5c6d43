// Rows of ids as files of examples, which runtime/checkpoint/examples.h reads: padded to one length, labels as numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint/label_table.h"
#include "runtime/prepare/row_plan.h"
#include "runtime/prepare/rows.h"

namespace modular {

/// Integer label outside the range of class numbers.
struct WrongLabel {
  size_t file = 0, row = 0;
  int64_t label = 0;
};

/// What all files of examples have in common.
struct ExampleShape {
  int64_t ids = 0, targets = 0;  // of each text
  NumberedLabels named;          // labels that are names; empty where they are numbers
  LabelTable model;              // by which they are numbered
  int64_t numbers = 0;           // of the list that is a row's label; 0 where it is not a list of numbers
  bool real_labels = false;
  int64_t padding = 0;
  bool pads_left = false;
  std::optional<WrongLabel> wrong;  // the first, where labels are numbers of classes
};

/// Reads the files of rows for their longest ones and their labels, whose names are numbered as `model` does. Lengths
/// are multiples of 8, unless that is more than the model's positions, or as asked. Numbers of classes are those below
/// `classes`, where that is known, and -100. Throws DataError where labels are of several kinds: names and numbers that
/// are not integers, or lists of several lengths.
ExampleShape find_shape(const std::vector<std::filesystem::path>& files, const RowPlan& plan, const RowLength& length,
                        const LabelTable& model, std::optional<int64_t> classes);

/// The name of each label by its number, those of `shape.model` that the data does not have too; empty where labels are
/// numbers.
std::vector<std::string> label_names(const ExampleShape& shape);

/// Writes a file of examples in place of one that is there.
void write_examples(const std::filesystem::path& path, const Rows& rows, const RowPlan& plan,
                    const ExampleShape& shape);

}  // namespace modular
