// How trials that run at a time share a machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// CUDA_VISIBLE_DEVICES for each of `workers` trials of `ranks` ranks on a machine with so many GPUs, of which
/// `visible` (that variable of this process, or empty) says the names: no two trials have one in common. Throws
/// ConfigError where there are not enough.
std::vector<std::string> gpus_of_trials(int64_t gpus, const std::string& visible, int64_t ranks, int64_t workers);

}  // namespace modular
