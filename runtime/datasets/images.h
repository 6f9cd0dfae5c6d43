// Images of a run: in which size, and in which numbers, its model reads them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/image_samples.h"
#include "runtime/datasets/data_sets.h"

namespace modular {

/// As the model's config says, with the mean and the deviation that preprocessor_config.json in model.checkpoint has,
/// 0.5 without one. Throws ConfigError where the config or that file says none.
ImageShape image_shape(const RunConfig& config);

/// The label of each class: the model's number for the name of its folder; where the model's labels have no names, the
/// place in sorted order. Throws ConfigError where a class is not a label of a model that names its labels.
std::map<std::string, int64_t> image_labels(const RunConfig& config, const DataSet& set);

/// Throws ConfigError where the set has images, and the entry is no classifier of so many classes.
void check_images(const RunConfig& config, const DataSet& set);

}  // namespace modular
