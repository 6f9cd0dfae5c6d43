#include "runtime/checkpoint/generator_states.h"

#include <fmt/format.h>

#include <ATen/Context.h>

#include <mutex>
#include <stdexcept>

#include "runtime/checkpoint/safetensors.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, at::Generator>> generators(const at::Device& device) {
  std::vector<std::pair<std::string, at::Generator>> found = {
      {"generator.cpu", at::globalContext().defaultGenerator(at::kCPU)}};
  if (!device.is_cpu())
    found.emplace_back(fmt::format("generator.{}", c10::DeviceTypeName(device.type(), /*lower_case=*/true)),
                       at::globalContext().defaultGenerator(device));
  return found;
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device) {
  std::vector<std::pair<std::string, at::Tensor>> states;
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(name, generator.get_state());
  }
  return states;
}

void restore_generators(const fs::path& rank_file, const at::Device& device) {
  const SafetensorsFile file(rank_file);
  for (auto& [name, generator] : generators(device)) {
    if (!file.tensors().contains(name)) continue;  // saved on another kind of device
    const std::lock_guard lock(generator.mutex());
    const at::Tensor state = file.tensor(name);
    file.verify(name, 0, state.nbytes());
    try {
      generator.set_state(state.clone());
    } catch (const c10::Error&) {
      throw std::runtime_error(
          fmt::format("{} is damaged: its \"{}\" is no state of that random generator", rank_file.string(), name));
    }
  }
}

}  // namespace modular
