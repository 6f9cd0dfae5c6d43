#pragma once

namespace modular::cpu {

/// Makes the entire program sum the gradients of bfloat16 embedding tables over tokens in float32 and round once.
/// libtorch adds tokens one by one in bfloat16, where 4,096 ones sum to 256. Calling it again does nothing.
void install_embedding();

}  // namespace modular::cpu
