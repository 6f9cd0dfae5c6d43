// The next step's batches are read while a step is computed.
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

/// One thread that reads for a whole run: a thread for each step would take its stack from the system, and give it
/// back. Used by one other thread.
class Prefetcher {
 public:
  using Read = std::function<std::vector<Batch>(const DataPosition&)>;

  /// `read` is called on that thread, for one position after the other.
  explicit Prefetcher(Read read);
  /// Waits for what is being read.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Begins to read the batches at `position`; what was begun before must have been taken.
  void begin(DataPosition position);
  /// Whether there is something to take.
  bool has_begun() const { return batches_.valid(); }
  /// The batches that were begun, when they are there. Throws what reading them threw.
  std::vector<Batch> take() { return batches_.get(); }

 private:
  void work();

  Read read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::packaged_task<std::vector<Batch>()>> asked_;  // what the thread has not taken up yet
  bool ends_ = false;
  std::future<std::vector<Batch>> batches_;
  std::thread thread_;  // the last to be made, as it uses all of these
};

}  // namespace modular
