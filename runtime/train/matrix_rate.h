// Measured matmul throughput of a CPU, the reference for MFU where no data sheet gives a peak.
#pragma once

namespace modular {

/// Operations/s of a large bfloat16 or float32 matmul by the program's own matmul backend, on as many threads as this
/// one computes with: the fastest of the repetitions that fit into 25 ms, with matrices from 512 x 512 to 2048 x 2048
/// values (24 MiB for three in bfloat16, 48 in float32). Measured on the first call in a process and cached. Uses no
/// random numbers.
double matrix_rate(bool bf16);

}  // namespace modular
