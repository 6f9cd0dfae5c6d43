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

/// Draws this rank's slices of one parameter at a time, on the CPU, by counter and a key of `seed` and the parameter's
/// name. What is no draw of each element by itself is written whole, from a generator with that key, and cut.
class SliceInitializer final : public init::Initializer {
 public:
  explicit SliceInitializer(uint64_t seed) : seed_(seed) {}

  /// Has `registered`, the tensor that the module holds, initialize `slice`. Parameters that were not added are
  /// skipped.
  void add(const at::Tensor& registered, ShardedParameter& slice);

  /// Runs every reset_parameters() of `root`. Throws std::runtime_error naming a parameter that none of them writes.
  void run(nn::Module& root);

  void draw(const at::Tensor& parameter, const std::function<init::Distribution(at::IntArrayRef shape)>& of) override;
  void fill(const at::Tensor& parameter, const std::function<void(at::Tensor& whole)>& write) override;

 private:
  /// What was added for the parameter, which is filled now; null where nothing was.
  ShardedParameter* take(const at::Tensor& parameter);
  uint64_t make_key(const ShardedParameter& slice) const;

  uint64_t seed_;
  std::unordered_map<const at::TensorImpl*, ShardedParameter*> slices_;
  std::unordered_set<const ShardedParameter*> filled_;
};

}  // namespace modular
