// Sums over forwards.
#pragma once

#include <ATen/ATen.h>

namespace modular {

/// The sum of what forwards returned, without waiting for each of them.
class RunningSum {
 public:
  void add(const at::Tensor& value) {
    if (value.defined()) sum_ = sum_.defined() ? sum_ + value.detach() : value.detach().to(at::kDouble);
  }
  double value() const { return sum_.defined() ? sum_.item<double>() : 0.0; }

 private:
  at::Tensor sum_;
};

}  // namespace modular
