#pragma once

namespace modular::cpu {

/// From here on has the gradients of bfloat16 tables summed over tokens in float32, and rounded once, in all of the
/// program: libtorch adds one token after the other in bfloat16, where 4,096 ones make 256. Calling it again does
/// nothing.
void install_embedding();

}  // namespace modular::cpu
