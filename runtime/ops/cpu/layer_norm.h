#pragma once

namespace modular::cpu {

/// Replaces at::layer_norm over the last dimension with our own loops in the entire program. They keep statistics in
/// float32 even for bfloat16 inputs. They require weight and bias of the input's type; other cases, and errors, are
/// left to libtorch. Calling it again does nothing.
void install_layer_norm();

}  // namespace modular::cpu
