// A model on a mesh: built without ever being materialized in full on one rank, sharded according to its plan and the
// options, and run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/cache.h"
#include "runtime/model/registry.h"
#include "runtime/parallel/memory/memory_options.h"
#include "runtime/parallel/objectives/class_sampler.h"
#include "runtime/parallel/objectives/router_balance.h"
#include "runtime/parallel/objectives/sentence_objective.h"
#include "runtime/parallel/parameters/sharded_parameter.h"
#include "runtime/parallel/pipeline/pipeline_options.h"
#include "runtime/parallel/step/feature.h"
#include "runtime/parallel/tensor/context_parallel.h"

namespace modular {

/// How a model is parallelized, in addition to the mesh's shape.
struct ParallelOptions {
  // ZeRO stage over the dp_shard ranks (Rajbhandari et al., ZeRO). 1: shards optimizer state, and parameters between
  // steps; parameters are all-gathered and gradients reduce-scattered once per step. 2: also shards gradients, which
  // are reduce-scattered after each micro-batch. 3: also shards parameters, which are all-gathered for each forward and
  // each backward of a unit.
  int64_t zero_stage = 3;
  int64_t prefetch = 1;  // FSDP: number of units to prefetch
  // Replicas on threads of this process, on a mesh of one rank: see thread_replicas.h.
  int64_t dp_threads = 1;
  Recomputation recompute = {};  // what the backward recomputes
  Offload offload = {};          // what is kept in host memory
  // Unit classes of the plan that become FSDP units; "*" is all. Other modules belong to the enclosing unit.
  std::vector<std::string> units = {"*"};
  bool bf16 = false;  // compute in bfloat16; parameters, optimizer and sums over micro-batches
                      // and data-parallel ranks stay float32
  // Linear layers that compute in float8 (runtime/ops/float8.h), as path patterns like `frozen`; requires bf16.
  std::vector<std::string> float8 = {};
  bool dropout = true;  // in step(), with the rates of the config
  // Whether tp ranks divide the positions between layers. Default: if the entry's plan supports it.
  std::optional<bool> sequence = {};
  ContextOptions context = {};  // if cp is larger than 1
  // Modules and parameters that are not trained, as paths in the module tree, in which "*" matches any one component.
  std::vector<std::string> frozen = {};
  // If set, only adapters (lora.h) and these modules and parameters are trained.
  std::optional<std::vector<std::string>> trained = {};
  PipelineOptions pipeline = {};               // if pp is larger than 1
  RouterOptions router = {};                   // in step(), for a model with experts
  SentenceOptions sentences = {};              // for an entry with the task sentence-embedding
  SampledSoftmaxOptions sampled_softmax = {};  // in step(), for a model that supports it
  bool initialize = true;  // initialize parameters; false if all are loaded next, until when they are undefined
};

/// A launched step, which may still be running on a GPU. Its results are on the device.
struct LaunchedStep {
  at::Tensor numbers;  // float64: this rank's loss sum, number of targets and statistics of the features
  std::vector<int64_t> statistics = {};  // number of each feature's statistics
  int64_t target_count = 0;              // over the full mesh
  at::Tensor loss() const { return numbers[0]; }
};

/// Callback that receives the logits [batch, …] of a batch.
using SeeLogits = std::function<void(const Batch& batch, const at::Tensor& logits)>;

/// Collective: every rank constructs and calls it in the same way. Errors that a user can cause are std::runtime_error
/// with a message of one sentence.
class ParallelModel {
 public:
  /// Returns why the entry with this config cannot run on `shape`; empty if it can. Needs no process group: the
  /// launcher calls it before it starts ranks.
  static std::string error(const Entry& entry, const AnyConfig& config, const MeshShape& shape,
                           const PipelineOptions& pipeline = {});

  /// Builds the model on the meta device, then materializes this rank's slices. Initial values depend only on `seed`
  /// and the parameter's name; dropout only on `seed`, the layer's path and the sample; sampled classes only on `seed`
  /// and the step.
  ParallelModel(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options, uint64_t seed);
  ~ParallelModel();

  /// This rank's parameter slices, in module-tree order.
  std::vector<ShardedParameter>& parameters();

  /// This rank's slices of the registered buffers: initialized, saved and loaded like parameters, never trained.
  std::vector<ShardedParameter>& buffers();

  /// Sets the training and evaluation objective of sentence embeddings, the same on every rank.
  void train_for(const SentenceOptions& sentences);

  // Batches should be in host memory even for a GPU: they are copied asynchronously.

  /// Runs forward and backward over this rank's micro-batches. Leaves the gradient of the mean loss over all targets of
  /// the mesh's step in parameters(). `number` is the number of the step in the run; it selects the classes of a
  /// sampled softmax.
  StepResult step(std::span<const Batch> micro_batches, int64_t number = 0) {
    return finish_step(launch_step(micro_batches, number));
  }

  /// step() in two phases. launch_step() does everything that modifies the model; with batches in host memory the host
  /// does not wait for a GPU. finish_step() waits and returns the results; it does not wait if the caller has already
  /// copied `numbers` to host memory. Both are collective.
  LaunchedStep launch_step(std::span<const Batch> micro_batches, int64_t number = 0);
  StepResult finish_step(const LaunchedStep& launched);

  /// Publishes new values in `local`, from the optimizer or a checkpoint, to the next forward.
  void parameters_changed();

  /// Updates the router biases from the expert loads of the last finished step. Call it after an optimizer step.
  void move_router_biases();

  /// Runs forwards without gradients; sums the loss over the data-parallel ranks for batches with labels.
  StepResult evaluate(std::span<const Batch> batches) { return evaluate(batches, nullptr); }

  /// Same; calls see(batch, logits) for each batch on the ranks that have its logits: those of the last pipeline stage.
  StepResult evaluate(std::span<const Batch> batches, const SeeLogits& see);

  /// Returns the logits [batch, seq, vocab] of one batch on every rank. With a `cache`, the batch continues the cached
  /// tokens: its positions follow them, and it is appended to the cache. Sequences of different lengths are
  /// left-padded, and attention_mask [batch, seen + seq] marks the padding in each forward. A cache requires
  /// can_cache(), and the result is valid only if the cache is not spoiled afterwards, which may differ between ranks.
  at::Tensor logits(const Batch& batch, cache::Cache* cache = nullptr);

  /// Whether the entry's task supports logits() with a cache.
  bool can_cache() const;

  /// The mesh that the model was built on.
  Mesh& mesh();

 private:
  struct State;
  /// Applies the strategies that the mesh and the options ask for, in a fixed order.
  static std::unique_ptr<State> parallelize(Model model, const Entry& entry, const AnyConfig& config, Mesh& mesh,
                                            const ParallelOptions& options, uint64_t seed);
  std::unique_ptr<State> state_;
};

}  // namespace modular
