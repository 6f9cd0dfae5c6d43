// Live bytes of tensors in host memory.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>

namespace modular::testing {

/// Hands out host memory and knows how much of it is in use.
class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{inner_->allocate(bytes), bytes, this};
    const int64_t now = live_ += static_cast<int64_t>(bytes);
    for (int64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) continue;
    return {block->memory.get(), block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  void start() { peak_ = live_.load(); }
  int64_t peak() const { return peak_; }
  int64_t live() const { return live_; }

 private:
  struct Block {
    c10::DataPtr memory;
    size_t bytes;
    CountingAllocator* owner;
  };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner->live_ -= static_cast<int64_t>(block->bytes);
    delete block;
  }
  c10::Allocator* inner_;
  std::atomic<int64_t> live_ = 0;
  std::atomic<int64_t> peak_ = 0;
};

}  // namespace modular::testing
