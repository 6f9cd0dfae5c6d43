#include "runtime/train/prefetcher.h"

#include <utility>

namespace modular {

Prefetcher::Prefetcher(Read read) : read_(std::move(read)), thread_([this] { work(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Prefetcher::begin(DataPosition position) {
  std::packaged_task<std::vector<Batch>()> task([this, position = std::move(position)] { return read_(position); });
  batches_ = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    asked_ = std::move(task);
  }
  changed_.notify_one();
}

void Prefetcher::work() {
  for (std::unique_lock lock(mutex_);;) {
    changed_.wait(lock, [this] { return ends_ || asked_; });
    if (ends_) return;
    auto task = std::move(*asked_);
    asked_.reset();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace modular
