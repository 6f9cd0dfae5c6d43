#pragma once

namespace modular::cpu {

/// From here on has at::layer_norm over the last dimension computed by loops of our own, in all of the program, and its
/// statistics kept in float32 beside a bfloat16 input. Weight and bias have the input's type; all else, and errors,
/// stay libtorch's. Calling it again does nothing.
void install_layer_norm();

}  // namespace modular::cpu
