// The one file compiled with OpenMP: without it at::parallel_for is a serial loop.
#include "runtime/ops/cpu/parallel.h"

#include <ATen/Parallel.h>

namespace modular::cpu {

#ifndef _OPENMP
#error "compile this file with OpenMP: libtorch's threads are OpenMP's"
#endif

void parallel_ranges(int64_t count, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> work) {
  // A closure of this file: the same instantiation compiled elsewhere without OpenMP would be serial.
  at::parallel_for(0, count, grain, [&](int64_t first, int64_t last) { work(first, last); });
}

int64_t parallel_width() { return at::get_num_threads(); }

}  // namespace modular::cpu
