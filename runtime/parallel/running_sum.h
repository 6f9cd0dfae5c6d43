// Sums over forwards.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// The sum of what forwards returned, for which the host does not wait.
class RunningSum {
 public:
  void add(const at::Tensor& value) {
    if (value.defined()) sum_ = sum_.defined() ? sum_ + value.detach() : value.detach().to(at::kDouble);
  }
  /// [] float64 where the values are; undefined where none was added.
  const at::Tensor& tensor() const { return sum_; }

 private:
  at::Tensor sum_;
};

}  // namespace modular
