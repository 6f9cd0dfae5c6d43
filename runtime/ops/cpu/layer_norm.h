#pragma once

namespace modular::cpu {

/// From here on has at::layer_norm computed by loops of our own, in all of the program, and its statistics kept in
/// float32 beside a bfloat16 input. Calling it again does nothing.
void install_layer_norm();

}  // namespace modular::cpu
