#pragma once

namespace modular::cpu {

/// From here on has at::add and add_ of two bfloat16 tensors that lie alike in memory computed by our loop, in all of
/// the program: residuals, and gradients of what several operations read. The same numbers, but that sums below the
/// smallest normal number are 0 where the processor rounds to bfloat16 by itself. Calling it again does nothing.
void install_sums();

}  // namespace modular::cpu
