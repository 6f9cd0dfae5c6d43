// Live bytes of tensors in host memory.
#pragma once

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstdint>

namespace modular::testing {

/// Hands out host memory and knows how much of it is in use. The one of the program, from when it is first asked for.
class CountingAllocator final : public c10::Allocator {
 public:
  static CountingAllocator& installed() {
    static auto* const allocator = [] {
      auto* const counting = new CountingAllocator;
      c10::SetCPUAllocator(counting, /*priority=*/1);
      return counting;
    }();
    return *allocator;
  }

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::kCPU);
    if (bytes == 0) return {nullptr, cpu};
    auto* const block = static_cast<Block*>(c10::alloc_cpu(sizeof(Block) + bytes));
    block->bytes = static_cast<int64_t>(bytes);
    const int64_t now = live_ += block->bytes;
    for (int64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) continue;
    return {block + 1, block + 1, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  void start() { peak_ = live_.load(); }
  int64_t peak() const { return peak_; }
  int64_t live() const { return live_; }

 private:
  /// Lies before the bytes, which c10::Allocator::raw_allocate wants to find by their address alone.
  struct alignas(64) Block {
    int64_t bytes;
  };
  static void release(void* data) {
    if (!data) return;
    auto* const block = static_cast<Block*>(data) - 1;
    installed().live_ -= block->bytes;
    c10::free_cpu(block);
  }
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

}  // namespace modular::testing
