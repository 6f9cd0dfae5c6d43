// The subset of CUDA that the fused kernels use, on CPU threads: tests need no GPU, and an address sanitizer checks
// their memory accesses. Each thread of a block is a thread of its own and synchronizes where CUDA threads do. Blocks
// run one after another, so shared memory is static.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __shared__ static

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline void __stwb(uint4* p, uint4 value) { *p = value; }
using cudaStream_t = void*;

inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_cpu {

constexpr unsigned kWarp = 32;

/// A barrier. Threads sleep, because there are many more of them than cores.
class Barrier {
 public:
  explicit Barrier(unsigned threads) : threads_(threads) {}
  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    if (++arrived_ == threads_) {
      arrived_ = 0, ++round_;
      return all_arrived_.notify_all();
    }
    all_arrived_.wait(lock, [this, round = round_] { return round_ != round; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  unsigned threads_, arrived_ = 0, round_ = 0;
};

/// The threads of a block.
struct Block {
  struct Warp {
    explicit Warp(unsigned threads) : barrier(threads) {}
    Barrier barrier;
    std::array<float, kWarp> values = {};
  };
  explicit Block(unsigned threads) : barrier(threads) {
    for (unsigned first = 0; first < threads; first += kWarp)
      warps.push_back(std::make_unique<Warp>(std::min(kWarp, threads - first)));
  }
  Barrier barrier;
  std::vector<std::unique_ptr<Warp>> warps;
};

inline thread_local Block* block = nullptr;

/// Runs `kernel` for each thread of each block.
template <class Kernel>
void launch(dim3 grid, unsigned threads, const Kernel& kernel) {
  Block shared(threads);
  std::vector<std::jthread> running;
  for (unsigned thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      block = &shared;
      threadIdx = {thread}, blockDim = {threads}, gridDim = grid;
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
          blockIdx = {x, y};
          kernel();
          shared.barrier.arrive_and_wait();
        }
    });
}

}  // namespace cuda_on_cpu

inline void __syncthreads() { cuda_on_cpu::block->barrier.arrive_and_wait(); }

/// All threads of the warp participate.
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  auto& warp = *cuda_on_cpu::block->warps[threadIdx.x / cuda_on_cpu::kWarp];
  const unsigned lane = threadIdx.x % cuda_on_cpu::kWarp;
  warp.values[lane] = value;
  warp.barrier.arrive_and_wait();
  const float other = warp.values[lane ^ static_cast<unsigned>(distance)];
  warp.barrier.arrive_and_wait();
  return other;
}

inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline void atomicMax(uint32_t* address, uint32_t value) {
  const std::atomic_ref<uint32_t> shared(*address);
  for (uint32_t now = shared; now < value && !shared.compare_exchange_weak(now, value);) continue;
}
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
