#pragma once

namespace modular::cpu {

/// From here on has convolutions whose windows lie side by side, as those that cut an image into patches, computed as
/// matmuls, in all of the program: oneDNN's backward of them is many times slower. Calling it again does
/// nothing.
void install_patches();

}  // namespace modular::cpu
