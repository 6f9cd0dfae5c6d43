// AdamW (Loshchilov & Hutter, Decoupled Weight Decay Regularization) of parameters that are kept in float32 and
// computed with in bfloat16: each number is read and written once, where widening gradients, their norm, the update and
// rounding would read and write most of them several times.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "runtime/ops/adamw_factors.h"

namespace modular {

/// Contiguous, of one size and on one device.
struct AdamWParameter {
  at::Tensor value, exp_avg, exp_avg_sq;  // float32
  at::Tensor gradient;                    // bfloat16
  at::Tensor rounded;                     // bfloat16: `value` after the update
};

/// Of the update with this number, counted from 1.
AdamWFactors adamw_factors(double lr, double beta1, double beta2, double eps, double weight_decay, int64_t number);

/// Whether `device` has the two functions below.
bool has_adamw(const at::Device& device);

/// Updates the parameters by their gradients over `divisor`, [] float32 where they are, and nothing where `skipped`,
/// likewise, is 1. Not given: 1 and 0.
void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<at::Tensor>& divisor, const std::optional<at::Tensor>& skipped);

/// The sum of the squares of all elements, [] float64 where they are, of contiguous bfloat16 tensors on one device. The
/// same on any number of threads.
at::Tensor sum_of_squares(const std::vector<at::Tensor>& tensors);

}  // namespace modular
