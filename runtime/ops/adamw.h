// AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization) for float32 parameters with bf16 compute copies.
// Each value is read and written once; separate passes for widening gradients, their norm, the update and rounding
// would read and write most of them several times.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "runtime/ops/adamw_factors.h"

namespace modular {

/// The tensors of one parameter: contiguous, equally sized, and on one device.
struct AdamWParameter {
  at::Tensor value, exp_avg, exp_avg_sq;  // float32
  at::Tensor gradient;                    // bfloat16
  at::Tensor compute_copy;                // bfloat16 compute copy: `value` after the update
};

/// Factors of the update `number`, counted from 1.
AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay, int64_t number);

/// Whether `device` supports the two functions below.
bool has_adamw(const at::Device& device);

/// Updates the parameters with their gradients divided by `divisor`, [] float32 on the same device. Does nothing if
/// `skipped`, also [] float32 there, is 1. Defaults: 1 and 0.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);

/// The sum of the squares of all elements of contiguous bfloat16 tensors on one device: [] float64 there. The result
/// does not depend on the number of threads.
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace modular
