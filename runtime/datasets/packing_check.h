// Support of data formats and models for data.pack.
#pragma once

#include <string>

#include "runtime/config/config.h"

namespace modular {

struct PackingError {
  std::string key, sentence;
};

/// Error message if the documents of a row cannot be separated, because the data has no documents or the model cannot
/// mask across them. Empty if they can, or if data.pack is not set. Does not allocate the model.
PackingError packing_error(const RunConfig& config);

}  // namespace modular
