// A backend for parallel.backend that treats host memory as NCCL treats a GPU's, over Gloo, so that what would only
// sometimes go wrong on GPUs always does here:
//   - What an operation writes holds NaN (of integers, -1) until its work was waited for, and comes then at once. What
//   it reads may not change or be freed before. What the program does too early shows.
//   - A group's operations run one after the other, in the order in which this rank called them. A send ends when it is
//     received. Ranks that call sends and receives in orders that do not fit hang.
//   - The first message between two ranks of a group, and its first collective, return when all who take part came.
#include <ATen/ATen.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/mesh/backend_library.h"

namespace {

using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Work = c10::intrusive_ptr<c10d::Work>;
using Store = c10::intrusive_ptr<c10d::Store>;

/// Runs functions on a thread, one after the other.
class Queue {
 public:
  Queue() : thread_([this] { run(); }) {}
  ~Queue() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  std::future<void> add(std::function<void()> function) {
    std::packaged_task<void()> task(std::move(function));
    std::future<void> done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return done;
  }

 private:
  void run() {
    for (;;) {
      std::packaged_task<void()> task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool closed_ = false;
  std::thread thread_;  // the last: it uses the others
};

/// The memory of a tensor that the program uses, apart from the program's own tensor, whose version stays as it is.
at::Tensor get_memory(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_contiguous(), "a backend moves contiguous tensors");
  TORCH_CHECK(
      static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize() + tensor.nbytes() <= tensor.storage().nbytes(),
      "a tensor was freed before its work was waited for");
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.options());
}

bool same_bytes(const at::Tensor& one, const at::Tensor& other) {
  return one.nbytes() == 0 || std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

/// All bits are ones: NaN in every floating-point type.
void poison(const at::Tensor& tensor) {
  if (tensor.nbytes() > 0) std::memset(tensor.mutable_data_ptr(), 0xff, tensor.nbytes());
}

/// What an operation reads: a copy that it works on, and the program's memory, which is to stay as it is.
class Input {
 public:
  explicit Input(at::Tensor tensor) : tensor_(std::move(tensor)), copy_(get_memory(tensor_).clone()) {}
  const at::Tensor& copy() const { return copy_; }
  void check() const {
    TORCH_CHECK(same_bytes(get_memory(tensor_), copy_), "what a work reads changed before it was waited for");
  }

 private:
  at::Tensor tensor_, copy_;
};

/// What an operation writes.
class Output {
 public:
  explicit Output(at::Tensor tensor) : tensor_(std::move(tensor)) {
    poison(get_memory(tensor_));
    poisoned_ = get_memory(tensor_).clone();
  }
  void become(const at::Tensor& result) const {
    const at::Tensor memory = get_memory(tensor_);
    TORCH_CHECK(same_bytes(memory, poisoned_), "what a work writes was written to before it was waited for");
    memory.copy_(result);
  }

 private:
  at::Tensor tensor_, poisoned_;
};

class LateWork final : public c10d::Work {
 public:
  LateWork(std::future<void> done, std::function<void()> finish) : done_(std::move(done)), finish_(std::move(finish)) {}
  bool isCompleted() override { return !done_.valid(); }
  bool wait(std::chrono::milliseconds) override {
    if (!done_.valid()) return true;
    done_.get();
    finish_();
    return true;
  }

 private:
  std::future<void> done_;
  std::function<void()> finish_;
};

class Late final : public c10d::Backend {
 public:
  Late(c10::intrusive_ptr<c10d::Backend> inner, Store store, int rank, int size, std::chrono::milliseconds timeout)
      : Backend(rank, size), inner_(std::move(inner)), store_(std::move(store)), timeout_(timeout) {}

  const std::string getBackendName() const override { return "late"; }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    meet_all();
    const at::Tensor sum = get_memory(tensors[0]).clone();
    return add([this, sum, options] { wait(call(&Backend::allreduce, sum, options)); }, {}, tensors[0], sum);
  }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    meet_all();
    const at::Tensor value = get_memory(tensors[0]).clone();
    const auto run = [this, value, options] { wait(call(&Backend::broadcast, value, options)); };
    if (options.rootRank == getRank()) return add(run, Input(tensors[0]));
    return add(run, {}, tensors[0], value);
  }

  Work alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_sizes, Splits& input_sizes,
                     const c10d::AllToAllOptions& options) override {
    meet_all();
    const Input given(input);
    const at::Tensor received = at::empty_like(output);
    const auto run = [=, this, to = received, from = given.copy(), to_sizes = output_sizes,
                      from_sizes = input_sizes]() mutable {
      wait(inner_->alltoall_base(to, from, to_sizes, from_sizes, options));
    };
    return add(run, given, output, received);
  }

  Work send(Tensors& tensors, int to, int tag) override {
    meet(to);
    const Input given(tensors[0]);
    return add([this, value = given.copy(), to, tag] { wait(call(&Backend::send, value, to, tag)); }, given);
  }

  Work recv(Tensors& tensors, int from, int tag) override {
    meet(from);
    const at::Tensor value = at::empty_like(tensors[0]);
    return add([=, this] { wait(call(&Backend::recv, value, from, tag)); }, {}, tensors[0], value);
  }

  Work barrier(const c10d::BarrierOptions& options) override {
    meet_all();
    return add([this, options] { wait(inner_->barrier(options)); });
  }

  void shutdown() override { inner_->shutdown(); }

 private:
  template <class... Arguments, class... Given>
  Work call(Work (c10d::Backend::*operation)(Tensors&, Arguments...), const at::Tensor& tensor, Given&&... given) {
    Tensors tensors = {tensor};
    return (*inner_.*operation)(tensors, given...);
  }

  static void wait(const Work& work) { work->wait(); }

  /// `result` becomes `output` when the work is waited for.
  Work add(std::function<void()> run, std::optional<Input> input = {}, const at::Tensor& output = {},
           const at::Tensor& result = {}) {
    std::optional<Output> written;
    if (output.defined()) written.emplace(output);
    auto finish = [input = std::move(input), written = std::move(written), result] {
      if (input) input->check();
      if (written) written->become(result);
    };
    return c10::make_intrusive<LateWork>(queue_.add(std::move(run)), std::move(finish));
  }

  /// Returns when both this rank and `peer` have called it for each other once.
  void meet(int peer) {
    if (!met_.insert(peer).second) return;
    const auto key = [](int of, int with) { return "rank " + std::to_string(of) + " meets " + std::to_string(with); };
    store_->set(key(getRank(), peer), std::vector<uint8_t>{1});
    store_->wait({key(peer, getRank())}, timeout_);
  }

  /// Returns when all ranks have called it once.
  void meet_all() {
    if (std::exchange(all_met_, true)) return;
    std::vector<std::string> keys;
    for (int rank = 0; rank < getSize(); ++rank) keys.push_back("rank " + std::to_string(rank) + " meets all");
    store_->set(keys[static_cast<size_t>(getRank())], std::vector<uint8_t>{1});
    store_->wait(keys, timeout_);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  Store store_;
  std::chrono::milliseconds timeout_;
  std::set<int> met_;
  bool all_met_ = false;
  Queue queue_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void modular_make_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
    c10::intrusive_ptr<c10d::Backend>& backend) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 2;
  const Store of_gloo = c10::make_intrusive<c10d::PrefixStore>("gloo", store);
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(of_gloo, rank, size, options);
  backend = c10::make_intrusive<Late>(std::move(gloo), store, rank, size, timeout);
}
