// The text that a run's model writes at its end.
#pragma once

#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/parallel/parallel_model.h"

namespace modular {

/// sample.prompt and what the model makes of it, on rank 0; nothing where there is no prompt, or no way from its text
/// to ids, which is said where it is an error. Collective.
std::optional<std::string> sample_of_run(ParallelModel& model, const RunConfig& config);

}  // namespace modular
