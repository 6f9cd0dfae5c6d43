// Sharing of a machine's GPUs by concurrent trials.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace modular {

/// Returns CUDA_VISIBLE_DEVICES for each of `workers` concurrent trials of `ranks` ranks, such that no two trials share
/// a GPU. The machine has `gpus` GPUs, named by `visible` (CUDA_VISIBLE_DEVICES of this process, or empty). Throws
/// ConfigError if there are too few GPUs.
std::vector<std::string> assign_gpus(int64_t gpus, const std::string& visible, int64_t ranks, int64_t workers);

}  // namespace modular
