// Checkpoints of heads that tensor-parallel ranks share, and of vocabularies that they do not divide.
#include <gtest/gtest.h>

#include <tuple>

#include "generated/gpt2.h"
#include "generated/llama.h"
#include "generated/phi3.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/optim/optimizer.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

MeshShape mesh(int64_t tp, int64_t dp_shard = 1) {
  MeshShape shape;
  shape[Axis::tp] = tp, shape[Axis::dp_shard] = dp_shard;
  return shape;
}

Fields fields(int64_t key_value_heads, int64_t words) {
  return {{"num_key_value_heads", key_value_heads},
          {"vocab_size", words},
          {"intermediate_size", int64_t{48}},
          {"pad_token_id", int64_t{0}},
          {"num_hidden_layers", int64_t{2}}};
}

Fields gpt2(int64_t words) {
  return {{"vocab_size", words},
          {"n_embd", int64_t{36}},
          {"n_layer", int64_t{2}},
          {"n_head", int64_t{6}},
          {"n_positions", int64_t{64}}};
}

struct Saved {
  std::string architecture;
  MeshShape shape;
  Fields fields;
};

/// A model in training, of which any mesh continues what another one saved.
struct Run {
  Run(const Environment& environment, const MeshShape& shape, const Saved& of)
      : mesh(environment, shape, {.device = at::kCPU}),
        network{.entry = &entry_of(of.architecture), .config = tiny_config(entry_of(of.architecture), of.fields)},
        model(*network.entry, *network.config, mesh, {.dropout = false}, /*seed=*/3),
        optimizer(model.parameters(), {.name = "adamw"}, mesh),
        boxes(boxes_of(model)) {
    const auto moments = boxes_of(optimizer.state());
    boxes.insert(boxes.end(), moments.begin(), moments.end());
  }

  double step() {
    Batch batch;
    batch.input_ids = at::arange(4 * 9, at::kLong).view({4, 9}).remainder(23);
    batch.labels = batch.input_ids;
    const int64_t rows = 4 / mesh.size(Axis::dp_shard), first = rows * mesh.coordinate(Axis::dp_shard);
    batch.tensors([&](at::Tensor& tensor) {
      if (tensor.defined()) tensor = tensor.narrow(0, first, rows);
    });
    const double loss = model.step({&batch, 1}).loss;
    optimizer.step(1e-2);
    model.parameters_changed();
    return loss;
  }

  Mesh mesh;
  ModelConfig network;
  ParallelModel model;
  Optimizer optimizer;
  std::vector<TensorBox> boxes;
};

class UnevenCheckpoints : public ::testing::TestWithParam<std::tuple<Saved, MeshShape>> {};

TEST_P(UnevenCheckpoints, OfOneMeshLoadOnAnother) {
  const auto& [saved, shape] = GetParam();
  const auto folder = std::filesystem::path(shared_folder());
  const auto losses = run_ranks(static_cast<int>(saved.shape.ranks()), [&](const Environment& environment) {
    Run run(environment, saved.shape, saved);
    for (int i = 0; i < 3; ++i) run.step();
    save_checkpoint(folder, run.network, {.step = 3, .values = {}}, run.boxes, run.mesh, /*keep_last=*/0);
    return Report{run.step(), run.step()};
  });
  const auto resumed = run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
    Run run(environment, shape, saved);
    load_checkpoint(find_checkpoint(folder), run.network, run.boxes, run.mesh);
    run.optimizer.set_steps(3);
    run.model.parameters_changed();
    return Report{run.step(), run.step()};
  });
  for (const Report& report : resumed)
    for (size_t step = 0; step < report.size(); ++step)
      EXPECT_NEAR(report[step], losses[0][step], 1e-5 * losses[0][step]) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Heads, UnevenCheckpoints,
                         ::testing::Combine(::testing::Values(Saved{"LlamaForCausalLM", mesh(4), fields(2, 63)},
                                                              Saved{"Phi3ForCausalLM", mesh(4), fields(1, 63)}),
                                            ::testing::Values(mesh(1), mesh(2), mesh(2, 2), mesh(4))));
INSTANTIATE_TEST_SUITE_P(Vocabularies, UnevenCheckpoints,
                         ::testing::Combine(::testing::Values(Saved{"GPT2LMHeadModel", mesh(3, 2), gpt2(64)}),
                                            ::testing::Values(mesh(1), mesh(2), mesh(6))));

}  // namespace
}  // namespace modular::testing
