// The random numbers that a forward draws, so that a second run draws the same.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Context.h>

#include <mutex>
#include <vector>

namespace modular {

/// The state of the generators that operators on `device` use by default.
class RandomState {
 public:
  explicit RandomState(const at::Device& device) {
    save(at::Device(at::kCPU));
    if (!device.is_cpu()) save(device);
  }
  /// Puts the generators back into this state.
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
