// The random generators that a rank draws from, as tensors of its file of a checkpoint.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modular {

/// The states of the CPU's generator and of the device's, by the names of their tensors ("generator.cpu").
std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device);

/// Whether `name` is that of a generator's tensor.
bool is_generator_state(std::string_view name);

/// Reads a generator's state from a rank's file into `state`, which holds one. Returns false where it has none, as one
/// that was saved on another kind of device. Throws std::runtime_error where it is damaged.
bool read_generator_state(const std::filesystem::path& rank_file, const std::string& name, at::Tensor state);

/// Makes the generators continue from `states`, which were read from that file. Throws std::runtime_error where one is
/// none.
void set_generator_states(const std::vector<std::pair<std::string, at::Tensor>>& states,
                          const std::filesystem::path& rank_file, const at::Device& device);

}  // namespace modular
