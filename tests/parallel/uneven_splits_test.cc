// Tensor parallelism with sizes that the ranks do not divide: KV heads in KV replication groups, and vocabularies of
// which the last ranks hold fewer rows.
#include "runtime/parallel/parameters/uneven_splits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runtime/mesh/collectives.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/parallel/tensor/tensor_parallel.h"
#include "tests/generator/golden/parallel/generated/grouped_heads.h"
#include "tests/generator/golden/parallel/generated/renamed_heads.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

MeshShape mesh(int64_t tp, int64_t dp_shard = 1, int64_t pp = 1) {
  MeshShape shape;
  shape[Axis::tp] = tp, shape[Axis::dp_shard] = dp_shard, shape[Axis::pp] = pp;
  return shape;
}

/// Sizes that 4 ranks divide, except for the given ones.
Fields fields(int64_t key_value_heads, int64_t words, int64_t layers = 2) {
  return {{"num_key_value_heads", key_value_heads},
          {"vocab_size", words},
          {"intermediate_size", int64_t{48}},
          {"pad_token_id", int64_t{0}},
          {"num_hidden_layers", layers}};
}

Fields gpt2(int64_t words, int64_t heads = 6) {
  return {{"vocab_size", words},
          {"n_embd", int64_t{36}},
          {"n_layer", int64_t{2}},
          {"n_head", heads},
          {"n_positions", int64_t{64}}};
}

Fields mamba2(int64_t groups, int64_t words) {
  return {{"vocab_size", words},     {"num_hidden_layers", int64_t{2}}, {"hidden_size", int64_t{32}},
          {"num_heads", int64_t{8}}, {"state_size", int64_t{6}},        {"n_groups", groups},
          {"chunk_size", int64_t{8}}};
}

struct Case {
  std::string architecture;
  MeshShape shape;
  Fields fields;
};

std::string name_for(const Case& test_case) {
  const auto number = [&](const char* name) {
    return test_case.fields.contains(name) ? std::get<int64_t>(test_case.fields.at(name)) : 0;
  };
  return fmt::format("{}_tp{}_shard{}_pp{}_heads{}_words{}", test_case.architecture, test_case.shape[Axis::tp],
                     test_case.shape[Axis::dp_shard], test_case.shape[Axis::pp],
                     number("num_key_value_heads") + number("n_groups"), number("vocab_size"));
}

void PrintTo(const Case& one, std::ostream* out) { *out << name_for(one); }

class UnevenSplits : public ::testing::TestWithParam<Case> {};

TEST_P(UnevenSplits, TrainLikeOneProcess) {
  const bool has_stages = GetParam().shape[Axis::pp] > 1;
  expect_same_training(GetParam().architecture, GetParam().shape,
                       {{.name = "plain", .fields = GetParam().fields, .micro_batches = has_stages ? 2 : 1},
                        {.name = "recomputed",
                         .fields = GetParam().fields,
                         .options = {.zero_stage = 2, .recompute = true},
                         .micro_batches = 2}});
}

INSTANTIATE_TEST_SUITE_P(Meshes, UnevenSplits,
                         ::testing::Values(Case{"LlamaForCausalLM", mesh(4), fields(2, 64)},
                                           Case{"GemmaForCausalLM", mesh(4), fields(1, 5)},
                                           Case{"GPT2LMHeadModel", mesh(3), gpt2(64)},
                                           Case{"Mamba2ForCausalLM", mesh(2, 2), mamba2(1, 63)}),
                         [](const auto& info) { return name_for(info.param); });
INSTANTIATE_TEST_SUITE_P(
    Release, UnevenSplits,
    ::testing::Values(
        Case{"LlamaForCausalLM", mesh(2, 1, 2), fields(1, 63)}, Case{"Olmo2ForCausalLM", mesh(2), fields(1, 62)},
        Case{"Phi3ForCausalLM", mesh(2, 3), fields(1, 64)}, Case{"BertForMaskedLM", mesh(4), fields(4, 63)},
        Case{"LlamaForCausalLM", mesh(2), fields(1, 62)}, Case{"LlamaForCausalLM", mesh(4), fields(1, 63)},
        Case{"LlamaForCausalLM", mesh(4), fields(4, 5)}, Case{"LlamaForCausalLM", mesh(2, 2), fields(1, 63)},
        Case{"GemmaForCausalLM", mesh(2), fields(1, 63)}, Case{"GemmaForCausalLM", mesh(4), fields(2, 62)},
        Case{"GemmaForCausalLM", mesh(2, 1, 2), fields(1, 63)}, Case{"GemmaForCausalLM", mesh(4, 2), fields(2, 5)},
        Case{"Olmo2ForCausalLM", mesh(4), fields(2, 63)}, Case{"Phi3ForCausalLM", mesh(2), fields(1, 63)},
        Case{"Phi3ForCausalLM", mesh(4), fields(2, 62)}, Case{"Phi3ForCausalLM", mesh(4, 1, 2), fields(1, 64)},
        Case{"GPT2LMHeadModel", mesh(2), gpt2(63)}, Case{"GPT2LMHeadModel", mesh(2, 2), gpt2(63)},
        Case{"GPT2LMHeadModel", mesh(2, 1, 2), gpt2(63)}, Case{"Mamba2ForCausalLM", mesh(2), mamba2(1, 62)},
        Case{"Mamba2ForCausalLM", mesh(4), mamba2(2, 63)}),
    [](const auto& info) { return name_for(info.param); });

TEST(UnevenSplits, TrainTheSameWithAHeadCountOfAnotherName) {
  Fields renamed = fields(2, 63);
  renamed["groups_of_heads"] = int64_t{1};
  expect_same_training("RenamedHeadsForCausalLM", mesh(4), {{.name = "plain", .fields = renamed}});
}

TEST(UnevenSplits, TrainTheSameWithAdafactor) {
  expect_same_training("Phi3ForCausalLM", mesh(4),
                       {{.name = "adafactor", .fields = fields(2, 63), .optimizer = "adafactor"}});
}

TEST(UnevenSplits, TrainTheSameWithMuon) {
  // Muon rounds to bfloat16.
  expect_same_training("Phi3ForCausalLM", mesh(2, 2), {{.name = "muon", .fields = fields(1, 63), .optimizer = "muon"}},
                       2e-3);
}

TEST(UnevenSplits, KvReplicasStayBitwiseEqual) {
  const Entry& entry = get_entry("Phi3ForCausalLM");
  const auto values = run_ranks(4, [&](const Environment& environment) {
    Mesh on(environment, mesh(4), {.device = at::kCPU});
    Report shared;
    for (const char* optimizer : {"adamw", "adafactor", "muon"}) {
      ParallelModel model(entry, *tiny_config(entry, fields(2, 64)), on, {}, /*seed=*/3);
      Optimizer updates(model.parameters(), {.name = optimizer}, on);
      Batch batch;
      batch.input_ids = at::arange(4 * 9, at::kLong).view({4, 9}).remainder(23);
      batch.samples = at::arange(4, at::kLong);
      batch.labels = batch.input_ids;
      for (int step = 0; step < 3; ++step) {
        model.step({&batch, 1});
        updates.step(1e-2);
        model.parameters_changed();
      }
      for (const ShardedParameter& parameter : model.parameters())
        for (const ParameterSlice& slice : parameter.slices) {
          if (slice.kv_replicas == 1) continue;
          EXPECT_EQ(slice.kv_replicas, 2);
          EXPECT_EQ(slice.owner, on.rank() % 2 == 0);
          const at::Tensor held = slice.in_local(parameter.local).contiguous();
          shared.insert(shared.end(), held.const_data_ptr<float>(), held.const_data_ptr<float>() + held.numel());
        }
    }
    return shared;
  });
  EXPECT_EQ(values[0].size(), 3u * 2 * 2 * 8 * 36) << "keys and values of two layers, one head of size 8 each";
  EXPECT_EQ(values[0], values[1]);
  EXPECT_EQ(values[2], values[3]);
  EXPECT_NE(values[0], values[2]);
}

/// Attention with 4 heads of 6 features and a norm over the keys of all heads, in double precision.
TEST(UnevenSplits, KvReplicasMatchOneProcessInDoublePrecision) {
  run_ranks(4, [](const Environment& environment) {
    Mesh on(environment, mesh(4), {.device = at::kCPU});
    for (const int64_t heads : {1, 2}) {
      at::manual_seed(7);
      const auto random = [](std::vector<int64_t> shape) { return at::randn(shape, at::kDouble); };
      const Tensor x = random({2, 5, 16}), upstream = random({2, 5, 16});
      const std::vector<Tensor> weights = {random({24, 16}), random({6 * heads, 16}), random({6 * heads, 16}),
                                           random({6 * heads}), random({16, 24})};
      const auto attend = [&](const Tensor& input, const std::vector<Tensor>& of, const auto& norm) {
        const auto by_head = [](const Tensor& value) { return value.unflatten(-1, {-1, 6}).transpose(1, 2); };
        const Tensor key = norm(at::linear(input, of[1]), of[3]), value = at::linear(input, of[2]);
        const Tensor mixed = plain::attention(by_head(at::linear(input, of[0])), by_head(key), by_head(value),
                                              causal_mask(Tensor(), /*window=*/0), 0.4);
        return at::linear(mixed, of[4]);
      };
      std::vector<Tensor> full;
      for (const Tensor& weight : weights) full.push_back(weight.clone().requires_grad_());
      const Tensor expected =
          attend(x, full, [](const Tensor& key, const Tensor& scale) { return plain::rms_norm(key, scale, 1e-3); });
      expected.backward(upstream);

      const auto parallel = make_tensor_parallel(on.group({Axis::tp}));
      ParameterTable table;
      std::vector<ShardedParameter> slices;
      std::vector<Tensor> own;
      for (size_t i = 0; i < weights.size(); ++i) {
        ModelParameter& parameter = table.parameters.emplace_back();
        parameter.global_shape = weights[i].sizes().vec();
        parameter.tensor_split = i == 4 ? 1 : 0;
        parameter.parts = {{.size = i == 4 ? 24 : weights[i].size(0), .slices = i >= 1 && i <= 3 ? heads : 0}};
        const auto shape = local_shape(parameter, 4, on.rank());
        ShardedParameter& slice = slices.emplace_back();
        slice.slices = get_slices_on_rank(parameter, 4, on.rank(), {.size = shape[0]});
        ASSERT_EQ(slice.slices.size(), 1u);
        own.push_back(slice.slices[0].in_global(weights[i]).clone().requires_grad_());
        ASSERT_EQ(own.back().sizes(), at::IntArrayRef(shape));
      }
      {
        const Binding binding(Parallel{.tp = parallel.get()});
        const Tensor result = tp::exit(attend(
            tp::enter(x), own, [](const Tensor& key, const Tensor& scale) { return tp::rms_norm(key, scale, 1e-3); }));
        EXPECT_TRUE(at::allclose(result, expected, 1e-10, 1e-10));
        result.backward(upstream);
      }
      for (size_t i = 0; i < own.size(); ++i) slices[i].grad = own[i].grad();
      SharedSlices(table, on).reduce_gradients(slices);
      for (size_t i = 0; i < own.size(); ++i)
        EXPECT_TRUE(at::allclose(slices[i].grad, slices[i].slices[0].in_global(full[i].grad()), 1e-10, 1e-10)) << i;
      barrier(on.world(), "the end");
    }
  });
}

TEST(UnevenSplits, AreInferredFromUniqueSliceLengths) {
  const auto sizes = [](std::vector<SplitPart> parts, int64_t tp) {
    ParameterTable table;
    for (const SplitPart& part : parts) table.parameters.emplace_back().parts = {part};
    return uneven_sizes(table, tp);
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes({{.size = 64}, {.size = 32}}, 2), Sizes{}) << "all are divided evenly";
  EXPECT_EQ(sizes({{.size = 63}, {.size = 63}, {.size = 32}}, 2), Sizes{63});
  EXPECT_EQ(sizes({{.size = 63}, {.size = 48}, {.size = 6, .slices = 1}}, 4), Sizes{63}) << "16 of 63, 12 of 48";
  EXPECT_EQ(sizes({{.size = 63}, {.size = 64}}, 4), std::nullopt) << "the first ranks have 16 of either";
  EXPECT_EQ(sizes({{.size = 63}, {.size = 60}}, 4), std::nullopt) << "the last rank has 15 of either";
  EXPECT_EQ(sizes({{.size = 5}, {.size = 3}}, 4), std::nullopt) << "the last rank has nothing of either";
}

TEST(UnevenSplits, RejectsWhatCannotBeShared) {
  const auto error = [](const std::string& architecture, const Fields& fields, int64_t tp, const Plan* plan = nullptr) {
    Entry entry = get_entry(architecture);
    if (plan) entry.plan = plan;
    return ParallelModel::error(entry, *tiny_config(entry, fields), mesh(tp));
  };
  EXPECT_EQ(error("LlamaForCausalLM", fields(1, 63), 4), "");
  EXPECT_EQ(error("LlamaForCausalLM", {{"num_attention_heads", int64_t{6}}, {"intermediate_size", int64_t{48}}}, 3),
            "num_key_value_heads = 2 cannot be split over tp = 3: choose a tp that divides it or is a multiple of it");
  EXPECT_EQ(error("LlamaForCausalLM", fields(1, 63), 8),
            "num_attention_heads = 4 cannot be split over tp = 8: choose a tp that divides it");
  // A rank with a part of a group's queries has no use for the group's interleaved layer.
  EXPECT_EQ(error("GroupedHeadsForCausalLM", fields(2, 63), 2), "");
  EXPECT_EQ(error("GroupedHeadsForCausalLM", fields(2, 63), 4),
            "num_key_value_heads = 2 cannot be split over tp = 4: choose a tp that divides it");
  // Ranks cannot share a head whose results are summed, such as a query head.
  Plan plan = *get_entry("LlamaForCausalLM").plan;
  for (TensorSplit& split : plan.tensor_splits)
    if (split.parameter == "model.layers.*.self_attn.k_proj.weight") split.dim = 1;
  EXPECT_EQ(error("LlamaForCausalLM", fields(1, 62), 2, &plan),
            "num_key_value_heads = 1 cannot be split over tp = 2, because model.layers.0.self_attn.k_proj.weight is "
            "not split by it along only its first dimension: choose a tp that divides it");
}

}  // namespace
}  // namespace modular::testing
