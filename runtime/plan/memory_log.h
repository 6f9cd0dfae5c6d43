// What tensors are allocated and freed while a step is run without arithmetic, and what each was for.
#pragma once

#include <c10/core/Allocator.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/parallel/memory/memory_purpose.h"

namespace modular {

/// What a rank's memory holds.
enum class Held {
  parameters,   // its own part, with buffers, and those that are whole because nothing divides them
  gathered,     // parameters of other ranks: the root, the running unit, and those gathered ahead
  gradients,    // its own part
  unreduced,    // gradients of other ranks' parts, before and during the sum
  optimizer,    // its state
  activations,  // what forwards keep for their backwards
  working,      // what a forward, a backward or an update needs while it runs
  other         // batches, messages between stages
};
inline constexpr std::array<std::string_view, 8> kHeldNames = {"parameters", "gathered",    "gradients", "unreduced",
                                                               "optimizer",  "activations", "working",   "other"};

using HeldBytes = std::array<int64_t, kHeldNames.size()>;

/// The events of one thread of work, in its order.
class MemoryLog {
 public:
  /// What is done from here on, until end(): "construction", "state", "forward", "backward", … Spans may lie in others.
  void begin(std::string what);
  void end();

  size_t allocate(size_t bytes);
  void free(size_t block);

  /// The number of events so far, a place in the log.
  size_t now() const;

  /// Of the time from event `first` to event `last`.
  struct Peak {
    int64_t bytes = 0;
    HeldBytes held = {};      // of it
    HeldBytes most = {};      // of each, at its own peak
    std::string during;       // the span in which it lay
    int64_t one_forward = 0;  // the most that a forward left for its backward
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
  std::vector<size_t> open_;  // spans, the innermost last
  std::vector<Block> blocks_;
  std::vector<Event> events_;
};

/// While one lives, tensors in host memory lie in memory that is address space until it is written, and holds zeros,
/// and are logged. One at a time.
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
