// Image size, normalization and labels of a run's images.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/image_samples.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// Size from the model's config, with mean and standard deviation from preprocessor_config.json in model.checkpoint, or
/// 0.5 without that file. Throws ConfigError if the config or the file lacks a value.
ImageShape image_shape(const RunConfig& config);

/// Label of each class: the model's id for the folder's name or, if the model's labels are unnamed, the folder's index
/// in sorted order. Throws ConfigError if the model names its labels and a class is not among them.
std::map<std::string, int64_t> image_labels(const RunConfig& config, const DataSet& set);

/// Throws ConfigError if the set has images and the entry is not a classifier with that many classes.
void check_images(const RunConfig& config, const DataSet& set);

}  // namespace modular
