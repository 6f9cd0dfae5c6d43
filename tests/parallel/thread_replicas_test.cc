// Replicas on threads of one process (parallel.dp_threads) train like one model, with five transfers per step.
#include <gtest/gtest.h>

#include "runtime/mesh/collectives.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

Variant on_threads(int64_t threads, int64_t micro_batches, Fields fields, std::vector<std::string> frozen = {}) {
  ParallelOptions options;
  options.dp_threads = threads;
  options.frozen = std::move(frozen);
  return {.name = std::to_string(threads) + " threads",
          .fields = std::move(fields),
          .options = options,
          .micro_batches = micro_batches};
}

/// Compares losses, norms, an evaluation and parameter sums of runs with threads and without.
void expect_same_training(const std::string& architecture, const std::vector<Variant>& variants) {
  const Entry& entry = get_entry(architecture);
  Mesh alone({}, {}, {.device = at::kCPU});
  for (const Variant& variant : variants) {
    SCOPED_TRACE(architecture + ", " + variant.name);
    ParallelOptions single = variant.options;
    single.dp_threads = 1;
    const Report expected = train(alone, entry, {.name = "one", .fields = variant.fields, .options = single});
    const Report found = train(alone, entry, variant);
    ASSERT_EQ(found.size(), expected.size());
    double scale = 0.0;
    for (size_t sum = 2 * kSteps + 2; sum < expected.size(); ++sum) scale = std::max(scale, std::abs(expected[sum]));
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], i < 2 * kSteps + 2 ? 1e-5 * std::abs(expected[i]) : 1e-4 * scale)
          << "number " << i;
  }
}

/// Includes dropout: each replica drops what the single model drops in its rows.
TEST(ThreadReplicas, TrainLikeOneModel) {
  const Fields bert = {{"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.1}};
  // With 8 rows per micro-batch, three replicas have 2, 3 and 3; of 24 replicas, 8 have one row.
  expect_same_training("LlamaForCausalLM", {on_threads(2, 1, {{"attention_dropout", 0.1}}), on_threads(3, 3, {}),
                                            on_threads(24, 3, {}), on_threads(3, 1, {}, {"model.layers.1"})});
  expect_same_training("BertForMaskedLM", {on_threads(2, 2, bert), on_threads(3, 3, bert)});
}

/// Scatter of rows, broadcast of parameters, gather of losses, scatter of their gradients, reduction of parameter
/// gradients.
TEST(ThreadReplicas, HaveFiveTransfersPerStep) {
  const Entry& entry = get_entry("LlamaForCausalLM");
  const auto config = tiny_config(entry);
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelOptions options;
  options.dp_threads = 3;
  ParallelModel model(entry, *config, alone, options, /*seed=*/1);
  double parameters = 0.0;
  for (const ShardedParameter& parameter : model.parameters())
    parameters += static_cast<double>(parameter.local.nbytes());
  Batch batch;
  batch.input_ids = at::zeros({6, 12}, at::kLong);
  batch.labels = batch.input_ids;
  const Traffic before = traffic();
  model.step(std::vector{batch});
  EXPECT_EQ(traffic().collectives - before.collectives, 5);
  const double rows = 4 * (2 * 12 + 1) * 8;  // ids, labels and sample indices of the other two replicas
  const double losses = 2 * (4 + 8), gradients_of_losses = 2 * 4;
  EXPECT_EQ(traffic().bytes - before.bytes, 2 * 2 * parameters + rows + losses + gradients_of_losses);
}

/// An error on any thread is thrown by the step.
TEST(ThreadReplicas, RethrowAnErrorOfAReplica) {
  const Entry& entry = get_entry("LlamaForCausalLM");
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelOptions options;
  options.dp_threads = 2;
  ParallelModel model(entry, *tiny_config(entry), alone, options, /*seed=*/1);
  Batch batch;
  batch.input_ids = at::zeros({4, 12}, at::kLong);
  batch.input_ids[3][0] = 1'000'000;
  batch.labels = at::zeros({4, 12}, at::kLong);
  EXPECT_THROW(model.step(std::vector{batch}), c10::Error);
  batch.input_ids[3][0] = 0;
  EXPECT_GT(model.step(std::vector{batch}).loss, 0.0);
}

}  // namespace
}  // namespace modular::testing
