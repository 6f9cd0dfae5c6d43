// Which data and models data.pack is for.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace modular {

struct PackingError {
  std::string key, sentence;
};

/// Says why the documents of a row cannot be kept apart: the data has none, or the model lets them see
/// each other. Empty where nothing is wrong, or data.pack is not set. Needs no memory of the model's size.
PackingError packing_error(const RunConfig& config);

}  // namespace modular
