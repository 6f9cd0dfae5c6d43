// Data parallelism within one process, like PyTorch's DataParallel: one replica of the model per device, each on its
// own thread. The first replica scatters rows, broadcasts its parameters once per step, and gathers losses and
// gradients. A baseline for comparison: all communication passes through the first device and is not overlapped.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/model/registry.h"
#include "runtime/model/tasks.h"

namespace modular {

class ThreadReplicas {
 public:
  /// `first` has its parameters; the other `count` - 1 replicas are built from `config`, on the GPUs after its own, or
  /// on the CPU, whose threads the replicas share. All use `dropout_seed` for dropout, if set.
  ThreadReplicas(const Entry& entry, const AnyConfig& config, Model& first, int64_t count,
                 std::optional<uint64_t> dropout_seed);
  ~ThreadReplicas();

  /// Copies the first replica's parameters and buffers to the others.
  void begin_step();
  /// Runs forward, and backward of the loss times `scale`, of one micro-batch whose rows are split into equal runs. The
  /// outputs are sums over the replicas, without logits. Rethrows an error of a replica when all have finished.
  Outputs run(const Batch& batch, double scale);
  /// Adds the other replicas' gradients to the first one's.
  void end_step();

 private:
  struct Replica;
  void on_threads(size_t count, const std::function<void(size_t replica)>& body);

  const Task* task_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace modular
