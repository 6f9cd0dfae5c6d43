// Log of tensor allocations while a step runs without arithmetic, with the purpose of each.
#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {

/// Categories of a rank's memory.
enum class Held {
  parameters,   // the rank's own slices, buffers, and parameters that are not sharded
  gathered,     // unsharded parameters: the root, the running unit, and prefetched units
  gradients,    // of the rank's own slices
  unreduced,    // unsharded gradients, before and during the reduce-scatter
  optimizer,    // the optimizer state
  activations,  // saved by forwards for their backwards
  working,      // temporaries of a running forward, backward or update
  other         // batches, messages between stages
};
inline constexpr std::array<std::string_view, 8> kHeldNames = {"parameters", "gathered",    "gradients", "unreduced",
                                                               "optimizer",  "activations", "working",   "other"};

using HeldBytes = std::array<int64_t, kHeldNames.size()>;

/// The events of one thread, in order.
class MemoryLog {
 public:
  /// Begins a span, which lasts until end(): "construction", "state", "forward", "backward", … Spans may be nested.
  void begin(std::string what);
  void end();

  size_t allocate(size_t bytes);
  void free(size_t block);

  /// The number of events so far, which serves as a position in the log.
  size_t now() const;

  /// Peak memory between event `first` and event `last`.
  struct Peak {
    int64_t bytes = 0;
    HeldBytes held = {};      // by category, at the peak
    HeldBytes most = {};      // by category, each at its own peak
    std::string during;       // the span of the peak
    int64_t one_forward = 0;  // the most that a forward saved for its backward
  };
  Peak peak(size_t first, size_t last) const;

 private:
  struct Span {
    std::string what;
    size_t begin = 0, end = SIZE_MAX;
  };
  struct Block {
    int64_t bytes;
    MemoryPurpose purpose;
    size_t span;
    size_t freed = SIZE_MAX;
  };
  struct Event {
    size_t block;
    bool allocates;
    size_t span;
  };
  Held held(const Block& block) const;

  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<size_t> open_;  // indices of open spans, innermost last
  std::vector<Block> blocks_;
  std::vector<Event> events_;
};

/// During its lifetime, tensors in host memory are logged and use memory that is only address space until it is
/// written, and reads as zeros. Only one may exist at a time.
class LoggedMemory {
 public:
  explicit LoggedMemory(std::shared_ptr<MemoryLog> log);
  ~LoggedMemory();
  LoggedMemory(const LoggedMemory&) = delete;
  LoggedMemory& operator=(const LoggedMemory&) = delete;

 private:
  c10::Allocator* before_;
};

}  // namespace modular
