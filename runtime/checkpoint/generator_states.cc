#include "runtime/checkpoint/generator_states.h"

#include <fmt/format.h>

#include <ATen/Context.h>

#include <mutex>
#include <stdexcept>
#include <string_view>

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

[[noreturn]] void reject_state(const fs::path& rank_file, const std::string& name) {
  throw std::runtime_error(
      fmt::format("{} is damaged: its \"{}\" is not a state of that random generator", rank_file.string(), name));
}

}  // namespace

bool is_generator_state(std::string_view name) { return name.starts_with("generator."); }

std::vector<std::pair<std::string, at::Tensor>> generator_states(const at::Device& device) {
  std::vector<std::pair<std::string, at::Tensor>> states;
  for (auto& [name, generator] : generators(device)) {
    const std::lock_guard lock(generator.mutex());
    states.emplace_back(name, generator.get_state());
  }
  return states;
}

bool read_generator_state(const fs::path& rank_file, const std::string& name, at::Tensor state) {
  const SafetensorsFile file(rank_file);
  if (!file.tensors().contains(name)) return false;
  const at::Tensor stored = file.tensor(name);
  file.verify(name, 0, stored.nbytes());
  if (stored.sizes() != state.sizes() || stored.scalar_type() != state.scalar_type()) reject_state(rank_file, name);
  state.copy_(stored);
  return true;
}

void set_generator_states(const std::vector<std::pair<std::string, at::Tensor>>& states, const fs::path& rank_file,
                          const at::Device& device) {
  auto known = generators(device);
  for (size_t i = 0; i < known.size(); ++i) {
    auto& [name, generator] = known[i];
    const std::lock_guard lock(generator.mutex());
    try {
      generator.set_state(states.at(i).second);
    } catch (const c10::Error&) {
      reject_state(rank_file, name);
    }
  }
}

}  // namespace modular
