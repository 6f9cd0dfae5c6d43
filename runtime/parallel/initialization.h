// Initial values that are the same on every mesh and device, without a whole model on any rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "runtime/model/init.h"
#include "runtime/parallel/sharded_parameter.h"

namespace modular {

/// Fills one parameter at a time, whole, on the CPU, from a generator seeded by `seed` and the parameter's name, and
/// keeps this rank's box.
class BoxInitializer final : public init::Initializer {
 public:
  explicit BoxInitializer(uint64_t seed) : seed_(seed) {}

  /// Has `registered`, the tensor that the module holds, initialize `box`. Parameters that were not added are skipped.
  void add(const at::Tensor& registered, ShardedParameter& box);

  /// Runs every reset_parameters() of `root`. Throws std::runtime_error naming a parameter that none of them writes.
  void run(nn::Module& root);

  void fill(const at::Tensor& parameter, const std::function<void(at::Tensor& whole)>& write) override;

 private:
  uint64_t seed_;
  std::unordered_map<const at::TensorImpl*, ShardedParameter*> boxes_;
  std::unordered_set<const ShardedParameter*> filled_;
};

}  // namespace modular
