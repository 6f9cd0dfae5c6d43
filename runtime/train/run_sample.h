// Text that the model generates at the end of a run.
#pragma once

#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// sample.prompt and its continuation, on rank 0. Empty if there is no prompt, or if its text cannot be encoded, which
/// is reported in case of an error. Collective.
std::optional<std::string> sample_of_run(ParallelModel& model, const RunConfig& config);

}  // namespace modular
