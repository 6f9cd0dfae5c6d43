// Prints recordings.
#pragma once

#include "benchmarks/recording.h"

namespace modular {

/// Prints the fraction of the wall time of each kind of operation and of each operation, without the operations that it
/// called.
void print_shares(const char* title, const Recording& recording);

/// Prints a table of a step's kinds of operations: the time of each, its least work, the time of that work at the roof,
/// and the fraction of the measured time that this is; then the same for the full step, and for its matmuls and
/// attention alone at `matrix_rate` FLOP/s.
void print_roofline(const char* title, const Recording& step, double matrix_rate);

}  // namespace modular
