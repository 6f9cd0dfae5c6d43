// Data parallelism within one process, as PyTorch's DataParallel has it: a replica of the model on a thread for each
// device. The first deals rows out, copies its parameters to the others once a step, and gathers losses and gradients.
// There to be compared with: each exchange passes through the first device, and no rank is left to overlap it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/model/registry.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/dropout_rng.h"

namespace modular {

class ThreadReplicas {
 public:
  /// `first` has its parameters; `count` - 1 others are built from `config`: on the GPUs that follow its own, or beside
  /// it on the CPU, whose threads the replicas share out. All drop by `dropout_seed`, where there is one.
  ThreadReplicas(const Entry& entry, const AnyConfig& config, Model& first, int64_t count,
                 std::optional<uint64_t> dropout_seed);
  ~ThreadReplicas();

  /// Gives the others the first one's parameters and buffers.
  void begin_step();
  /// Forward, and backward of the loss times `scale`, of one micro-batch whose rows are dealt out in equal runs. The
  /// outputs are sums over the replicas, without logits. An error of one is thrown when all have ended.
  Outputs run(const Batch& batch, double scale);
  /// Adds the others' gradients to the first one's.
  void end_step();

 private:
  struct Replica;
  void on_threads(size_t count, const std::function<void(size_t replica)>& body);

  const Task* task_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

}  // namespace modular
