// The rates that bound the speed of a training step on a machine.
#pragma once

namespace modular {

struct MachineRates {
  double float32 = 0.0, bf16 = 0.0;  // FLOP/s of matmuls
  double bandwidth = 0.0;            // bytes/s, read and written
};

/// Measures and prints the rates on one thread and on `threads` threads, and returns the latter: for matmuls the best
/// of the libraries over some large shapes, for memory the best of copies and triads over some sizes. Takes about 10 s
/// and 1.5 GiB. at::mm is one of the libraries, so call this after the program has installed its own kernels for it.

MachineRates measure_machine(int threads);

}  // namespace modular
