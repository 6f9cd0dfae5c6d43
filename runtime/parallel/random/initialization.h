// Initial values that are the same on every mesh and device, without a full model on any rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "runtime/model/init.h"
#include "runtime/model/module.h"
#include "runtime/parallel/parameters/sharded_parameter.h"

namespace modular {

/// Writes elements [offset, offset + part's shape) of a tensor of shape `global_shape` that is sampled from `from`.
/// Values are sampled in float32 in host memory, in place if `part` is float32 host memory.
void fill_slice(const init::Distribution& from, uint64_t key, at::IntArrayRef global_shape, at::IntArrayRef offset,
                const at::Tensor& part);

/// Initializes this rank's slices one parameter at a time, on the CPU, with a counter-based RNG whose key depends on
/// `seed` and the parameter's name. A parameter whose elements are not sampled independently is materialized in full,
/// from a generator with that key, and sliced.
class SliceInitializer final : public init::Initializer {
 public:
  explicit SliceInitializer(uint64_t seed) : seed_(seed) {}

  /// Registers `slice` to be initialized when the module initializes `registered`, the tensor that it holds. Parameters
  /// that were not added are skipped.
  void add(const at::Tensor& registered, ShardedParameter& slice);

  /// Runs every reset_parameters() of `root`. Throws std::runtime_error that names a parameter that none of them
  /// initializes.
  void run(nn::Module& root);

  void draw(const at::Tensor& parameter,
            const std::function<init::Distribution(at::IntArrayRef shape)>& distribution) override;
  void fill(const at::Tensor& parameter, const std::function<void(at::Tensor& full)>& write) override;

 private:
  /// Returns the slice added for the parameter, now being filled; null if there is none.
  ShardedParameter* take(const at::Tensor& parameter);
  uint64_t make_key(const ShardedParameter& slice) const;

  uint64_t seed_;
  std::unordered_map<const at::TensorImpl*, ShardedParameter*> slices_;
  std::unordered_set<const ShardedParameter*> filled_;
};

}  // namespace modular
