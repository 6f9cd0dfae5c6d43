// Which data and models data.pack is for.
#pragma once

#include <string>

#include "runtime/train/config.h"

namespace modular {

struct PackingRefusal {
  std::string key, sentence;
};

/// Says in one sentence why the documents of a row cannot be kept apart: the data has none, or the model lets them see
/// each other. Empty where nothing is wrong, or data.pack is not set. Needs no memory of the model's size.
PackingRefusal packing_refusal(const RunConfig& config);

}  // namespace modular
