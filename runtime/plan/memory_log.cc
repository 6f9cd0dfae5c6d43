#include "runtime/plan/memory_log.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

namespace modular {
namespace {

/// Header in front of a tensor's bytes, found from their address alone, as Allocator::raw_allocate requires.
struct alignas(64) Memory {
  size_t bytes;  // of the header and the tensor
  std::shared_ptr<MemoryLog> log;
  size_t block;
};

// Smaller blocks come from the heap, which is faster.
constexpr size_t kMapped = size_t{1} << 17;

void* reserve(size_t bytes) {
  if (bytes < kMapped) return std::aligned_alloc(alignof(Memory), (bytes + 63) / 64 * 64);
  void* const start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

void release(void* data) {
  if (!data) return;
  Memory* const memory = static_cast<Memory*>(data) - 1;
  const size_t bytes = memory->bytes;
  memory->log->free(memory->block);
  memory->~Memory();
  if (bytes < kMapped)
    std::free(memory);
  else
    munmap(memory, bytes);
}

/// Lives as long as the program, because tensors may keep it.
class LoggingAllocator final : public c10::Allocator {
 public:
  std::shared_ptr<MemoryLog> log;

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device cpu(c10::kCPU);
    if (!log) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    if (bytes == 0) return {nullptr, cpu};
    void* const start = reserve(sizeof(Memory) + bytes);
    TORCH_CHECK(start, "the plan of a step needs address space for a tensor of ", bytes,
                " bytes, but the system denies it: see vm.overcommit_memory and ulimit -v");
    auto* const memory = new (start) Memory{sizeof(Memory) + bytes, log, log->allocate(bytes)};
    void* const data = memory + 1;
    if (sizeof(Memory) + bytes < kMapped) std::memset(data, 0, bytes);  // like mapped memory
    return {data, data, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

LoggingAllocator& logging_allocator() {
  static auto* const allocator = new LoggingAllocator;
  return *allocator;
}

}  // namespace

void MemoryLog::begin(std::string what) {
  const std::lock_guard lock(mutex_);
  open_.push_back(spans_.size());
  spans_.push_back({std::move(what), events_.size()});
}

void MemoryLog::end() {
  const std::lock_guard lock(mutex_);
  spans_[open_.back()].end = events_.size();
  open_.pop_back();
}

size_t MemoryLog::allocate(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t span = open_.empty() ? SIZE_MAX : open_.back();
  blocks_.push_back({static_cast<int64_t>(bytes), memory_purpose, span});
  events_.push_back({blocks_.size() - 1, true, span});
  return blocks_.size() - 1;
}

void MemoryLog::free(size_t block) {
  const std::lock_guard lock(mutex_);
  blocks_[block].freed = events_.size();
  events_.push_back({block, false, open_.empty() ? SIZE_MAX : open_.back()});
}

size_t MemoryLog::now() const {
  const std::lock_guard lock(mutex_);
  return events_.size();
}

Held MemoryLog::held(const Block& block) const {
  if (block.purpose == MemoryPurpose::gathered) return Held::gathered;
  if (block.purpose == MemoryPurpose::gradients) return Held::gradients;
  if (block.purpose == MemoryPurpose::unreduced_gradients) return Held::unreduced;
  if (block.span == SIZE_MAX) return Held::other;
  const Span& span = spans_[block.span];
  if (span.what == "construction") return Held::parameters;
  if (span.what == "state") return Held::optimizer;
  const bool stays = block.freed >= span.end;
  // The first half of a split backward leaves what the second half starts from.
  if (span.what == "forward" || span.what == "backward of inputs") return stays ? Held::activations : Held::working;
  if (span.what == "backward") return stays ? Held::gradients : Held::working;
  return Held::working;
}

MemoryLog::Peak MemoryLog::peak(size_t first, size_t last) const {
  const std::lock_guard lock(mutex_);
  std::vector<Held> kinds;
  for (const Block& block : blocks_) kinds.push_back(held(block));
  Peak peak;
  HeldBytes live = {};
  int64_t all = 0;
  for (size_t i = 0; i < last; ++i) {
    const auto [block, allocates, span] = events_[i];
    const int64_t change = allocates ? blocks_[block].bytes : -blocks_[block].bytes;
    all += change;
    int64_t& kind = live[static_cast<size_t>(kinds[block])];
    kind += change;
    if (i + 1 < first) continue;
    int64_t& most = peak.most[static_cast<size_t>(kinds[block])];
    most = std::max(most, kind);
    if (i + 1 == first) peak.most = live;
    if (all <= peak.bytes) continue;
    peak.bytes = all;
    peak.held = live;
    peak.during = span == SIZE_MAX ? "" : spans_[span].what;
  }
  std::map<size_t, int64_t> forward_bytes;  // by span
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const size_t span = blocks_[i].span;
    if (kinds[i] != Held::activations || spans_[span].what != "forward" || spans_[span].begin < first) continue;
    peak.one_forward = std::max(peak.one_forward, forward_bytes[span] += blocks_[i].bytes);
  }
  return peak;
}

LoggedMemory::LoggedMemory(std::shared_ptr<MemoryLog> log) : before_(c10::GetCPUAllocator()) {
  TORCH_INTERNAL_ASSERT(!logging_allocator().log);
  logging_allocator().log = std::move(log);
  c10::SetCPUAllocator(&logging_allocator(), /*priority=*/255);
}

LoggedMemory::~LoggedMemory() {
  logging_allocator().log.reset();
  c10::SetCPUAllocator(before_, /*priority=*/255);
}

}  // namespace modular
