// The random generators that a rank draws from, as tensors of its file of a checkpoint.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace modular {

/// The states of the CPU's generator and of the device's, by the names of their tensors ("generator.cpu").
std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device);

/// Makes the generators go on from where a rank's file has them. Throws std::runtime_error where it is damaged.
void restore_generators(const std::filesystem::path& rank_file, const at::Device& device);

}  // namespace modular
