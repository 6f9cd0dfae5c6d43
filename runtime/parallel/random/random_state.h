// RNG state of a forward, so that recomputation samples the same values.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <mutex>
#include <vector>

namespace modular {

/// State of the default generators for `device`.
class RandomState {
 public:
  explicit RandomState(const at::Device& device) {
    save(at::Device(at::kCPU));
    if (!device.is_cpu()) save(device);
  }
  /// Restores the generators to this state.
  void restore() const {
    for (const auto& [device, state] : states_) {
      at::Generator generator = at::globalContext().defaultGenerator(device);
      std::lock_guard lock(generator.mutex());
      generator.set_state(state);
    }
  }

 private:
  void save(const at::Device& device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    std::lock_guard lock(generator.mutex());
    states_.emplace_back(device, generator.get_state());
  }
  std::vector<std::pair<at::Device, at::Tensor>> states_;
};

}  // namespace modular
