#include "runtime/ops/cpu/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>
#include <mutex>

// libtorch's threads belong to GNU's OpenMP library, which at::parallel_for reaches by `#pragma omp parallel`. g++
// compiles that to this call; Clang calls another library, which would start a second thread pool.
extern "C" {
void GOMP_parallel(void (*region)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
}

namespace modular::cpu {

namespace {

struct Region {
  int64_t count, grain;
  c10::function_ref<void(int64_t, int64_t)> work;
  std::mutex mutex;
  std::exception_ptr failure;
};

int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

void run_thread(void* data) {
  auto& region = *static_cast<Region*>(data);
  const int64_t threads =
      std::min<int64_t>(omp_get_num_threads(), divide_up(region.count, std::max<int64_t>(region.grain, 1)));
  const int64_t piece = divide_up(region.count, threads), thread = omp_get_thread_num(), first = thread * piece;
  if (first >= region.count) return;
  try {
    const at::internal::ThreadIdGuard id(static_cast<int>(thread));
    const c10::ParallelGuard guard(true);
    region.work(first, std::min(first + piece, region.count));
  } catch (...) {
    const std::lock_guard lock(region.mutex);
    if (!region.failure) region.failure = std::current_exception();
  }
}

}  // namespace

void parallel_ranges(int64_t count, int64_t grain, c10::function_ref<void(int64_t first, int64_t last)> work) {
  if (count <= 0) return;
  at::internal::lazy_init_num_threads();
  if (count <= grain || count == 1 || at::in_parallel_region() || at::get_num_threads() == 1) {
    const at::internal::ThreadIdGuard id(0);
    const c10::ParallelGuard guard(true);
    work(0, count);
    return;
  }
  Region region{count, grain, work, {}, {}};
  GOMP_parallel(run_thread, &region, /*threads=*/0, /*flags=*/0);
  if (region.failure) std::rethrow_exception(region.failure);
}

int64_t parallel_width() { return at::get_num_threads(); }

}  // namespace modular::cpu
