// What is printed of a recording.
#pragma once

#include "benchmarks/recording.h"

namespace modular {

/// Each kind of operation's share of the wall time, and that of each operation. Time counts where it is spent: an
/// operation's callees are not counted to it.
void print_shares(const char* title, const Recording& recording);

/// A table of the kinds of operations of a step: the time of each, what it has to do at least, how long that takes at
/// the roof, and the roof's share of the time; then the same of the whole step, and of its products at `matrix_rate`.
void print_roofline(const char* title, const Recording& step, double matrix_rate);

}  // namespace modular
