// Writes rows of ids as files of examples, which runtime/data/examples.h reads: padded to one length, with labels
// as numbers.
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

/// An integer label outside the range of class numbers.
struct WrongLabel {
  size_t file = 0, row = 0;
  int64_t label = 0;
};

/// Properties that all example files share.
struct ExampleShape {
  int64_t ids = 0, targets = 0;  // length of each text
  NumberedLabels named;          // numbers of labels that are names; empty if labels are numbers
  LabelTable model;              // gives the numbers
  int64_t numbers = 0;           // length of a row's list of label values; 0 if labels are not lists of numbers
  bool real_labels = false;
  int64_t padding = 0;
  bool pads_left = false;
  std::optional<WrongLabel> wrong;  // the first one, if labels are class numbers
};

/// Scans the files of rows for the maximum lengths and the labels, and numbers label names as `model` does. Lengths are
/// multiples of 8, unless that exceeds the model's positions, or as requested. Class numbers are those below `classes`,
/// if known, and -100. Throws DataError if labels are of several kinds: names and numbers that are not integers, or
/// lists of different lengths.
ExampleShape find_shape(const std::vector<std::filesystem::path>& files, const RowPlan& plan, const RowLength& length,
                        const LabelTable& model, std::optional<int64_t> classes);

/// Label names by number, including names of `shape.model` that the data does not have; empty if labels are numbers.
std::vector<std::string> label_names(const ExampleShape& shape);

/// Writes a file of examples, replacing an existing one.
void write_examples(const std::filesystem::path& path, const Rows& rows, const RowPlan& plan,
                    const ExampleShape& shape);

}  // namespace modular
