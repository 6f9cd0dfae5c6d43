// How fast a processor multiplies matrices: what a run's arithmetic is measured against where no data sheet says it.
#pragma once

namespace modular {

/// Floating-point operations a second of a product of large matrices, bfloat16 or float32, made by whom the program's
/// products are made by, on as many threads as this one computes with: the fastest of those that fit into 25 ms, of at
/// least 512 x 512 and at most 2048 x 2048 values (24 MiB for the three in bfloat16, 48 in float32). It is measured
/// when a process asks for the first time, and the same from then on. Draws no random numbers.
double matrix_rate(bool bf16);

}  // namespace modular
