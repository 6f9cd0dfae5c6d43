// What a machine can do at most: the roof that a training step is held against.
#pragma once

namespace modular {

struct MachineRates {
  double float32 = 0.0, bf16 = 0.0;  // floating-point operations a second of matmuls
  double bandwidth = 0.0;            // bytes/s that are read and written
};

/// Measures and prints them on one thread and on `threads`, and returns those of `threads`: of products the best of the
/// libraries over some large shapes, of memory the best of copies and triads over some sizes. Takes about 10 s and
/// 1.5 GiB. Products are also made as at::mm makes them, so what a program installs there comes before.
MachineRates measure_machine(int threads);

}  // namespace modular
