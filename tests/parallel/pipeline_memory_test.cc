// A pipeline stores as many micro-batches as its schedule requires, independent of their total number.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"
#include "tests/support/counting_allocator.h"

namespace modular::testing {
namespace {

/// Live bytes at the peak of a step, in addition to those before it.
int64_t peak_of_step(ParallelModel& model, int64_t micro_batches) {
  Batch batch;
  batch.input_ids = at::arange(48).view({4, 12});
  batch.labels = batch.input_ids;
  const std::vector<Batch> batches(static_cast<size_t>(micro_batches), batch);
  CountingAllocator& counting = CountingAllocator::installed();
  model.step(batches);
  counting.start();
  const int64_t before = counting.live();
  model.step(batches);
  return counting.peak() - before;
}

TEST(PipelineMemory, DoesNotGrowWithTheNumberOfMicroBatches) {
  run_ranks(4, [](const Environment& environment) {
    CountingAllocator::installed();
    at::set_num_threads(1);
    MeshShape shape;
    shape[Axis::pp] = 4;
    Mesh mesh(environment, shape, {.device = at::kCPU});
    const Entry& entry = get_entry("LlamaForCausalLM");
    ParallelModel model(entry, *tiny_config(entry), mesh, {}, 1);
    const int64_t few = peak_of_step(model, 16), many = peak_of_step(model, 32);
    EXPECT_GT(few, 0);
    EXPECT_EQ(many, few) << "sent or received tensors are not freed";
  });
}

}  // namespace
}  // namespace modular::testing
