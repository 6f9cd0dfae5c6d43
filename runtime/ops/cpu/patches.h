#pragma once

namespace modular::cpu {

/// Replaces convolutions with adjacent, non-overlapping windows, such as those that cut an image into patches, with
/// matmuls in the entire program: oneDNN's backward of them is many times slower. Calling it again does nothing.
void install_patches();

}  // namespace modular::cpu
