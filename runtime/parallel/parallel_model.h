// A model on a mesh: built without ever being whole on one rank, sharded as its plan and the options say, and run.
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
#include "runtime/parallel/class_sampler.h"
#include "runtime/parallel/memory_options.h"
#include "runtime/parallel/pipeline_options.h"
#include "runtime/parallel/router_options.h"
#include "runtime/parallel/sentence_losses.h"
#include "runtime/parallel/sharded_parameter.h"

namespace modular {

/// How a model is laid over a mesh. The mesh's shape says the rest.
struct ParallelOptions {
  // What the dp_shard ranks divide between them (Rajbhandari et al., ZeRO). 1: the optimizer's state, and parameters
  // between steps; they are gathered once a step, and gradients summed once. 2: gradients too, which are summed after
  // each micro-batch. 3: parameters too, which are gathered for each forward and each backward of a unit.
  int64_t zero_stage = 3;
  int64_t prefetch = 1;  // FSDP: units that are gathered ahead
  // Replicas on threads of this process, on a mesh of one rank: see thread_replicas.h.
  int64_t dp_threads = 1;
  Recomputation recompute = {};  // what is computed again in the backward instead of being kept
  Offload offload = {};          // what is in host memory until it is needed
  // Classes of the plan's units that are units; "*" is all. The others belong to the unit around them.
  std::vector<std::string> units = {"*"};
  bool bf16 = false;  // compute in bfloat16; parameters, optimizer and sums over micro-batches
                      // and data-parallel ranks stay float32
  // Linear layers whose products are in float8 (runtime/ops/float8.h), by paths as those of `frozen`; with bf16 alone.
  std::vector<std::string> float8 = {};
  bool dropout = true;  // in step(), as the config says
  // Modules and parameters that are not trained, by paths in the module tree, in which "*" is any one component.
  std::vector<std::string> frozen = {};
  // Where given, nothing is trained but adapters (lora.h) and what lies in these.
  std::optional<std::vector<std::string>> trained = {};
  PipelineOptions pipeline = {};               // where pp is larger than 1
  RouterOptions router = {};                   // in step(), of a model with experts
  SentenceOptions sentences = {};              // of an entry for sentence-embedding
  SampledSoftmaxOptions sampled_softmax = {};  // in step(), of a model that knows of it
  bool initialize = true;  // draw initial values; not where all are loaded next, until when they are undefined
};

/// What one optimizer step's forward and backward found, over the whole mesh.
struct StepResult {
  double loss = 0.0;         // mean over all targets of all ranks' batches
  int64_t target_count = 0;  // number of those targets
  double router_loss = 0.0;  // what the routers' losses add to it, coefficients included; step() differentiates the sum
  double expert_load = 0.0;  // choices of a router's most chosen expert over the mean of all, mean over routers; 0
                             // without experts
};

/// A step that was launched, and may still run on a GPU: what it finds lies where it is computed.
struct LaunchedStep {
  at::Tensor numbers;        // float64: this rank's loss, summed, its number of targets, and what its routers did
  int64_t target_count = 0;  // of the whole mesh
  at::Tensor loss() const { return numbers[0]; }
};

/// What looks at the logits [batch, …] of a batch.
using SeeLogits = std::function<void(const Batch& batch, const at::Tensor& logits)>;

/// Every rank constructs and calls it in the same way. Errors that a user can cause are std::runtime_error in one
/// sentence.
class ParallelModel {
 public:
  /// Says why `shape` cannot carry the entry with this config, or nothing. Needs no process group: the
  /// launcher asks before it starts a rank.
  static std::string error(const Entry& entry, const AnyConfig& config, const MeshShape& shape,
                           const PipelineOptions& pipeline = {});

  /// Builds on meta, then materializes this rank's slices; initial values depend on `seed` and the parameter's name
  /// alone, what dropout drops on `seed`, the layer's path and the sample alone, and which classes are sampled on
  /// `seed` and the step alone.
  ParallelModel(const Entry& entry, const AnyConfig& config, Mesh& mesh, const ParallelOptions& options, uint64_t seed);
  ~ParallelModel();

  /// This rank's slices, in the order of the module tree.
  std::vector<ShardedParameter>& parameters();

  /// What this rank holds of the registered buffers: initialized, saved and loaded like parameters, never trained.
  std::vector<ShardedParameter>& buffers();

  /// What embeddings of sentences are trained and judged for from now on, the same on every rank.
  void train_for(const SentenceOptions& sentences);

  // Batches may be in host memory, which is best for a GPU: it copies them when it comes to them.

  /// Forward and backward over this rank's micro-batches. Leaves in parameters() the gradient of the mean loss over all
  /// targets of the mesh's step. Which classes losses are taken over follows, where these are sampled, from the
  /// `number` of the step in the run.
  StepResult step(std::span<const Batch> micro_batches, int64_t number = 0) {
    return finish_step(launch_step(micro_batches, number));
  }

  /// step() in two. The first does all that a step does to the model, and the host waits for no GPU in it, where
  /// batches are in host memory; the second waits and says what was found. Whoever has brought `numbers` to host
  /// memory, with others, waits no more. Collective, both.
  LaunchedStep launch_step(std::span<const Batch> micro_batches, int64_t number = 0);
  StepResult finish_step(const LaunchedStep& launched);

  /// Makes what the optimizer or a checkpoint wrote into `local` what the next forward reads.
  void parameters_changed();

  /// Moves the biases that routers have by what they chose in the last finished step. For an optimizer step that was
  /// taken.
  void move_router_biases();

  /// Forward without gradients; loss summed over the data-parallel ranks where the batch has labels.
  StepResult evaluate(std::span<const Batch> batches) { return evaluate(batches, nullptr); }

  /// The same; calls see(batch, logits) for each batch where its logits are: on all ranks of the last pipeline stage.
  StepResult evaluate(std::span<const Batch> batches, const SeeLogits& see);

  /// Logits [batch, seq, vocab] of one batch, on every rank. With a `cache`, those of the tokens after what the
  /// cache has seen, at the places that follow; it has seen these too afterwards. Sequences of several lengths are
  /// padded before their first token, and attention_mask [batch, seen + seq] says so in each forward. Only where
  /// can_cache(), and right only if the cache is not spoiled then, which may differ between ranks.
  at::Tensor logits(const Batch& batch, cache::Cache* cache = nullptr);

  /// Whether the entry's task lets logits() continue from a cache.
  bool can_cache() const;

  /// The mesh that it was built on.
  Mesh& mesh();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace modular
