// Every strategy over a backend whose operations complete in wait(), stay in order and connect two ranks at their first
// message, like NCCL's (tests/support/late_backend.cc), gives bitwise the same results as over Gloo.
#include <gtest/gtest.h>

#include "runtime/mesh/backend_library.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

struct Strategy {
  std::string name, architecture;
  MeshShape shape;
  Variant variant;
};

Report first_ranks_training(const Strategy& strategy, bool late) {
  const auto reports = run_ranks(static_cast<int>(strategy.shape.ranks()), [&](const Environment& environment) {
    MeshOptions options = {.device = at::kCPU};
    // In a deadlock, ranks fail with the name of the collective that they wait for.
    options.collective_timeout = std::chrono::seconds(30);
    if (late) options.make_backend = load_backend(LATE_BACKEND);
    Mesh mesh(environment, strategy.shape, options);
    return train(mesh, get_entry(strategy.architecture), strategy.variant);
  });
  for (const Report& report : reports) EXPECT_EQ(report, reports.front()) << "all ranks report the same numbers";
  return reports.front();
}

void PrintTo(const Strategy& one, std::ostream* out) { *out << one.name; }

class LateBackend : public ::testing::TestWithParam<Strategy> {};

TEST_P(LateBackend, TrainsLikeGloo) {
  const Report late = first_ranks_training(GetParam(), true), gloo = first_ranks_training(GetParam(), false);
  EXPECT_GT(gloo.size(), 2 * kSteps);
  EXPECT_EQ(late, gloo);
}

MeshShape mesh(int64_t pp, int64_t replicate = 1, int64_t shard = 1, int64_t tp = 1) {
  MeshShape shape;
  shape[Axis::pp] = pp, shape[Axis::dp_replicate] = replicate, shape[Axis::dp_shard] = shard, shape[Axis::tp] = tp;
  return shape;
}

Strategy llama(const std::string& name, const MeshShape& shape, const ParallelOptions& options,
               int64_t micro_batches = 2, const std::string& optimizer = "adamw") {
  return {name,
          "LlamaForCausalLM",
          shape,
          {.name = name, .options = options, .micro_batches = micro_batches, .optimizer = optimizer}};
}

Strategy pipeline(const std::string& name, int64_t ranks, const std::string& schedule, int64_t micro_batches,
                  bool tied = false, int64_t stages_per_rank = 0) {
  Strategy strategy = llama(name, mesh(ranks), {}, micro_batches);
  strategy.variant.options.pipeline = {.schedule = schedule, .stages_per_rank = stages_per_rank};
  strategy.variant.fields = {{"num_hidden_layers", int64_t{6}}, {"tie_word_embeddings", tied}};
  return strategy;
}

Strategy two_stacks(const std::string& name, const std::string& architecture, const std::string& schedule) {
  Strategy strategy = pipeline(name, 4, schedule, 4);
  strategy.architecture = architecture;
  Fields fields = {{"tie_word_embeddings", true},
                   {"image_size", int64_t{12}},
                   {"patch_size", int64_t{4}},
                   {"projection_dim", int64_t{20}},
                   {"num_hidden_layers", int64_t{4}},
                   {"num_layers", int64_t{4}},
                   {"num_decoder_layers", int64_t{4}},
                   {"d_model", int64_t{36}},
                   {"d_kv", int64_t{8}},
                   {"d_ff", int64_t{50}},
                   {"num_heads", int64_t{4}}};
  strategy.variant.fields = std::move(fields);
  return strategy;
}

std::vector<Strategy> strategies() {
  Strategy experts = {"experts", "MixtralForCausalLM", mesh(1, 1, 2, 2), {.name = "experts", .micro_batches = 2}};
  experts.variant.fields = {{"num_local_experts", int64_t{3}}, {"output_router_logits", true}};
  return {
      llama("zero3", mesh(1, 1, 3), {}),
      llama("recomputation", mesh(1, 1, 2), {.prefetch = 2, .recompute = true, .bf16 = true}),
      llama("all_axes", mesh(2, 1, 2, 2), {}),
      experts,
      pipeline("interleaved", 3, "interleaved", 6),
      pipeline("tied_zbv", 3, "zbv", 6, /*tied=*/true),
      two_stacks("encoder_and_decoder", "T5ForConditionalGeneration", "1f1b"),
  };
}

std::vector<Strategy> further_strategies() {
  return {
      llama("ddp", mesh(1, 2), {}),
      llama("zero1", mesh(1, 1, 3), {.zero_stage = 1}),
      llama("zero2", mesh(1, 1, 3), {.zero_stage = 2}),
      llama("hsdp", mesh(1, 2, 2), {}),
      llama("muon", mesh(1, 1, 2), {}, 2, "muon"),
      llama("adafactor", mesh(1, 1, 2), {}, 2, "adafactor"),
      llama("tp", mesh(1, 1, 1, 2), {}),
      pipeline("one_f_one_b", 3, "1f1b", 6),
      pipeline("one_f_one_b_on_four_ranks", 4, "1f1b", 6),
      pipeline("dualpipev", 3, "dualpipev", 6),
      pipeline("tied_interleaved", 3, "interleaved", 6, /*tied=*/true),
      pipeline("gpipe", 3, "gpipe", 4),
      pipeline("looped_bfs", 3, "looped-bfs", 4),
      pipeline("zero_bubble", 3, "interleaved-zero-bubble", 6, false, 1),
      pipeline("interleaved_zero_bubble", 3, "interleaved-zero-bubble", 6),
      pipeline("zbv", 3, "zbv", 6),
      pipeline("tied_on_two_ranks", 2, "1f1b", 4, /*tied=*/true),
      pipeline("tied", 3, "1f1b", 6, /*tied=*/true),
      two_stacks("images_and_texts", "CLIPModel", "1f1b"),
      two_stacks("encoder_and_decoder_zbv", "T5ForConditionalGeneration", "zbv"),
  };
}

INSTANTIATE_TEST_SUITE_P(Strategies, LateBackend, ::testing::ValuesIn(strategies()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Release, LateBackend, ::testing::ValuesIn(further_strategies()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace modular::testing
