#pragma once

namespace modular::cpu {

/// Replaces at::add and add_ of two bfloat16 tensors of the same memory layout with our loop in the entire program:
/// residuals, and gradients of tensors that several operations read. Results are the same, except that sums below the
/// smallest normal number are 0 on CPUs with bfloat16 rounding instructions. Calling it again does nothing.
void install_sums();

}  // namespace modular::cpu
