// A rank's random generators, as tensors in its checkpoint file.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modular {

/// States of the CPU's and the device's generators, by tensor name ("generator.cpu").
std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device);

/// Whether `name` is the name of a generator state.
bool is_generator_state(std::string_view name);

/// Reads a generator's state from a rank's file into `state`. Returns false if the file has none, as in a checkpoint
/// from another kind of device. Throws std::runtime_error if it is damaged.
bool read_generator_state(const std::filesystem::path& rank_file, const std::string& name, at::Tensor state);

/// Restores the generators from `states`, which were read from that file. Throws std::runtime_error if one is not a
/// valid state.
void set_generator_states(const std::vector<std::pair<std::string, at::Tensor>>& states,
                          const std::filesystem::path& rank_file, const at::Device& device);

}  // namespace modular
