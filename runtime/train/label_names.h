// The names of a classifier's labels, which prepared data brings and exported models tell.
#pragma once

#include "runtime/train/config.h"

namespace modular {

/// Writes the names of the data's labels.json into the model's config, as transformers reads them (id2label). Throws
/// ConfigError where the data names more labels than the model has, or two folders number them otherwise.
void name_labels(RunConfig& config);

}  // namespace modular
