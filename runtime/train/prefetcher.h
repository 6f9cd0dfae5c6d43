// Prefetches the next step's batches while a step is computed.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/data/batches.h"

namespace modular {

/// One reader thread for the entire run: a thread per step would allocate and free a stack each time. Used by one other
/// thread.
class Prefetcher {
 public:
  using Read = std::function<std::vector<Batch>(const DataPosition&)>;

  /// Calls `read` on the reader thread, one position at a time.
  explicit Prefetcher(Read read);
  /// Waits for the read in flight.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Starts reading the batches at `position`. The previous batches must have been taken.
  void begin(DataPosition position);
  /// Whether a read was started and not taken.
  bool has_begun() const { return batches_.valid(); }
  /// Waits for the batches and returns them. Rethrows exceptions of the reader.
  std::vector<Batch> take() { return batches_.get(); }

 private:
  void work();

  Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::packaged_task<std::vector<Batch>()>> asked_;  // not yet picked up by the thread
  bool ends_ = false;
  std::future<std::vector<Batch>> batches_;
  std::thread thread_;  // last, as it uses all other members
};

}  // namespace modular
