// Activation memory of a forward, counted as live tensor bytes when the backward starts, and the behavior of single
// saved tensors.
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string_view>

#include "runtime/model/functions.h"
#include "runtime/ops/fused.h"
#include "runtime/ops/replace_kernels.h"
#include "runtime/parallel/memory/saved_tensors.h"
#include "tests/parallel/training_runs.h"
#include "tests/support/counting_allocator.h"

namespace modular::testing {
namespace {

constexpr int64_t kLayers = 6, kHidden = 64, kInner = 160, kHeads = 4, kKeyHeads = 2, kHeadDim = 16;
constexpr int64_t kRows = 4, kSequence = 128, kTokens = kRows * kSequence;

CountingAllocator& counting() { return CountingAllocator::installed(); }

int64_t when_backward_began = 0;

std::unique_ptr<at::ObserverContext> note_backward(const at::RecordFunction& scope) {
  if (std::string_view(scope.name()) == "backward") when_backward_began = counting().live();
  return nullptr;
}

Recomputation operations(std::vector<std::string> names) {
  Recomputation recompute;
  recompute.operations = std::move(names);
  return recompute;
}

class ActivationMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    counting();
    install_fused_functions();
    at::set_num_threads(1);
    callback_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(note_backward).scopes({at::RecordScope::USER_SCOPE}));
  }
  void TearDown() override { at::removeCallback(callback_); }

  /// Number of floats that the forward of the second step saves.
  static double kept(const std::string& architecture, const ParallelOptions& options) {
    const Entry& entry = get_entry(architecture);
    const auto config = tiny_config(entry, {{"num_hidden_layers", kLayers},
                                            {"hidden_size", kHidden},
                                            {"intermediate_size", kInner},
                                            {"num_attention_heads", kHeads},
                                            {"num_key_value_heads", kKeyHeads},
                                            {"head_dim", kHeadDim},
                                            {"sliding_window", 2 * kSequence},
                                            {"max_position_embeddings", kSequence}});
    Mesh mesh({}, {}, {.device = at::kCPU});
    ParallelModel model(entry, *config, mesh, options, 1);
    Batch batch;
    batch.input_ids = at::arange(kTokens).remainder(62).view({kRows, kSequence});
    batch.labels = batch.input_ids;
    model.step({&batch, 1});
    const int64_t before = counting().live();
    model.step({&batch, 1});
    EXPECT_LT(counting().live(), before + 1024) << "a step leaks memory";
    return static_cast<double>(when_backward_began - before) / sizeof(float);
  }

 private:
  at::CallbackHandle callback_ = 0;
};

/// Activations of a Llama layer in addition to its input, with fused functions: inputs, outputs and reciprocal roots of
/// the norms; rotated queries and keys, values, and the attention output with a log-sum-exp per head; gate, up and
/// their elementwise product.
constexpr int64_t kOfLayer =
    kTokens * (3 * kHidden + 2 + 2 * kHeads * kHeadDim + 2 * kKeyHeads * kHeadDim + kHeads + 3 * kInner);

TEST_F(ActivationMemory, IsReducedByRecomputation) {
  const double all = kept("LlamaForCausalLM", {});
  Recomputation second;
  second.every = 2;
  const std::vector<std::tuple<std::string, Recomputation, int64_t>> cases = {
      {"full", true, kLayers * kOfLayer},
      {"every second", second, kLayers / 2 * kOfLayer},
      {"norm", operations({"norm"}), (2 * kLayers + 1) * kTokens * kHidden},
      {"activation", operations({"activation"}), kLayers * kTokens * kInner},
      {"fused attention keeps no scores", operations({"attention"}), 0},
      {"both", operations({"norm", "activation"}), kTokens * ((2 * kLayers + 1) * kHidden + kLayers * kInner)}};
  for (const auto& [name, recompute, saved] : cases)
    EXPECT_NEAR(all - kept("LlamaForCausalLM", {.recompute = recompute}), static_cast<double>(saved), 0.05 * kOfLayer)
        << name;
}

// Soft-capped scores save the result of tanh and the attention weights; with recomputation only the mask, which all
// heads share.
TEST_F(ActivationMemory, RecomputesAttentionScores) {
  constexpr int64_t kScores = kRows * kHeads * kSequence * kSequence;
  const double all = kept("Gemma2ForCausalLM", {});
  const double without = kept("Gemma2ForCausalLM", {.recompute = operations({"attention"})});
  EXPECT_NEAR(all - without, kLayers * (2.0 * kScores - kSequence * kSequence), 0.02 * kLayers * kScores);
}

// On a CPU, host and device memory are the same: offloaded tensors must not be stored twice.
TEST_F(ActivationMemory, IsOffloadedWithoutADuplicate) {
  const double all = kept("LlamaForCausalLM", {});
  Offload offload;
  offload.activations = true;
  EXPECT_NEAR(kept("LlamaForCausalLM", {.offload = offload}), all, 0.05 * kOfLayer);
}

TEST(SavedTensor, IsFreedAndRestored) {
  Offload offload;
  offload.activations = true;
  offload.least_bytes = 4;
  SavedTensors saved({}, offload, at::kCPU, {});
  const InstalledSavedTensors installed(&saved);
  at::Tensor input = at::randn({8, 8}), other = at::randn({8, 8}).requires_grad_();
  const at::Tensor expected = input.clone() * 3;
  c10::weak_intrusive_ptr<c10::StorageImpl> memory = input.storage().getWeakStorageImpl();
  at::Tensor sum;
  std::shared_ptr<const OffloadedUnit> unit;
  {
    SavedTensors::Frame frame(&saved, {});
    sum = (input.t() * other).sum() * 3;
    unit = frame.finish(/*offload=*/true);
  }
  ASSERT_TRUE(unit);
  input.reset();
  EXPECT_TRUE(memory.expired()) << "the graph still holds offloaded memory";
  unit->fetch();
  sum.backward();
  EXPECT_TRUE(at::equal(other.grad(), expected.t()));
}

/// Adds 1, and tells whether its backward may write into the memory of what it saved.
struct Reader : torch::autograd::Function<Reader> {
  static inline bool is_exclusive = false;
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x + 1;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    is_exclusive = has_exclusive_memory(context->get_saved_variables()[0]);
    return gradients;
  }
};

TEST(SavedTensor, IsHeldByItsReaderAloneIfNothingIsRecomputedOrOffloaded) {
  SavedTensors saved({}, {}, at::kCPU, {});
  const InstalledSavedTensors installed(&saved);
  const at::Tensor input = at::randn({4, 8}).requires_grad_();
  const auto run = [&](bool is_view) {
    SavedTensors::Frame frame(&saved, {});
    const at::Tensor doubled = input * 2;
    const at::Tensor sum = Reader::apply(is_view ? doubled.flatten() : doubled).sum();
    frame.finish(/*offload=*/false);
    return sum;
  };
  for (const bool is_view : {false, true}) {
    const at::Tensor sum = run(is_view);
    torch::autograd::grad({sum}, {input}, {}, /*retain_graph=*/true);
    EXPECT_FALSE(Reader::is_exclusive) << "a later backward reads it again";
    torch::autograd::grad({sum}, {input});
    EXPECT_TRUE(Reader::is_exclusive);
  }
}

TEST(SavedTensor, ModifiedInPlaceIsAnError) {
  SavedTensors saved(operations({"norm"}), {}, at::kCPU, {});
  const InstalledSavedTensors installed(&saved);
  const WatchedOperations watched(&saved);
  const at::Tensor weight = at::ones({8}).requires_grad_(), matrix = at::randn({8, 8}).requires_grad_();
  const auto run = [&](bool spoil) {
    at::Tensor x = at::randn({4, 8});
    at::Tensor sum;
    {
      SavedTensors::Frame frame(&saved, {});
      sum = rms_norm(x, weight, 1e-6).matmul(matrix).sum();
      frame.finish(/*offload=*/false);
    }
    if (spoil) x.add_(1);
    sum.backward();
  };
  run(false);
  EXPECT_THROW(run(true), c10::Error);
}

TEST(SavedTensor, ModifiedInPlaceIsAnErrorIfItIsKept) {
  SavedTensors saved({}, {}, at::kCPU, {});
  const InstalledSavedTensors installed(&saved);
  const at::Tensor input = at::randn({4, 8}).requires_grad_(), factors = at::randn({4, 8});
  SavedTensors::Frame frame(&saved, {});
  const at::Tensor sum = (input * factors).sum();
  frame.finish(/*offload=*/false);
  factors.add_(1);
  EXPECT_THROW(sum.backward(), c10::Error);
}

}  // namespace
}  // namespace modular::testing
