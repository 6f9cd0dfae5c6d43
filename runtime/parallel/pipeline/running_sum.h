// Sums over forwards.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// Sum of values that forwards return; the host does not wait for them.
class RunningSum {
 public:
  void add(const at::Tensor& value) {
    if (value.defined()) sum_ = sum_.defined() ? sum_ + value.detach() : value.detach().to(at::kDouble);
  }
  /// Scalar float64 tensor on the device of the values; undefined if nothing was added.
  const at::Tensor& tensor() const { return sum_; }

 private:
  at::Tensor sum_;
};

}  // namespace modular
