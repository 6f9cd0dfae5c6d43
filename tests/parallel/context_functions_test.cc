// Functions of the contract that look along the sequence, on two and three ranks that each have some of the positions:
// values and gradients of all positions, as one process computes them.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/model.h"
#include "runtime/parallel/tensor/context_parallel.h"
#include "tests/support/ranks.h"

namespace modular::testing {
namespace {

using Layout = ContextOptions::Layout;
using Attention = ContextOptions::Attention;
using Function = std::function<Tensor(const std::vector<Tensor>&)>;

constexpr int64_t kBatch = 2, kSeq = 12, kHeads = 6;

/// The same on every rank.
Tensor numbers(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kFloat));
}

struct Case {
  Function compute;
  std::vector<Tensor> inputs;  // of all positions
  int64_t dim = 1;             // of their positions
  // The dimension of the result's positions; nullopt if the result is the same on all ranks.
  std::optional<int64_t> result_dim = 1;
};

/// The result, and the gradients of the inputs for an arbitrary function of it.
std::vector<Tensor> run(const Case& of, std::vector<Tensor> inputs, bool counts, ContextRanks* ranks) {
  std::vector<Tensor> gradients;
  for (Tensor& input : inputs)
    if (input.is_floating_point()) gradients.push_back(input = input.detach().requires_grad_());
  const Tensor result = of.compute(inputs);
  std::vector<Tensor> found = {result.detach()};
  if (!result.requires_grad()) return found;
  Tensor factors =
      numbers(ranks && of.result_dim ? ranks->gather(result.detach(), *of.result_dim).sizes() : result.sizes(), 5);
  if (ranks && of.result_dim) factors = cp::part(factors, *of.result_dim);
  torch::autograd::backward({(result * factors).sum() * (counts ? 1.0 : 0.0)}, {});
  for (const Tensor& input : gradients) found.push_back(input.grad());
  return found;
}

/// Six runs of two positions, some of them next to each other on a rank.
DealtRuns irregular_runs(int64_t ranks) {
  constexpr std::array<int64_t, 6> kCosts = {5, 1, 9, 2, 7, 3};
  return balanced_runs(kCosts, ranks);
}

/// Divides positions by `runs` from now on.
void divide(ContextRanks& ranks, const DealtRuns& runs) {
  Batch batch;
  batch.input_ids = at::zeros({1, 1}, at::kLong);
  ranks.remember(batch, runs);
  ranks.before_forward(batch, 0);
}

void expect_same(Mesh& mesh, Attention attention, Layout layout, const Case& of, const char* what) {
  const std::vector<Tensor> expected = run(of, of.inputs, true, nullptr);
  ContextRanks ranks(mesh.group({Axis::cp}), attention, layout, {});
  if (layout == Layout::balanced) divide(ranks, irregular_runs(ranks.size()));
  Parallel parallel;
  parallel.context = &ranks;
  const Binding binding(parallel);
  std::vector<Tensor> own;
  for (const Tensor& input : of.inputs) own.push_back(cp::part(input, of.dim));
  std::vector<Tensor> found = run(of, own, of.result_dim || mesh.rank() == 0, &ranks);
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0 || of.result_dim) found[i] = ranks.gather(found[i].detach(), i > 0 ? of.dim : *of.result_dim);
    EXPECT_TRUE(at::allclose(found[i].to(at::kDouble), expected[i].to(at::kDouble), 1e-5, 1e-5))
        << what << ", layout " << static_cast<int>(layout) << (i > 0 ? ": a gradient" : ": the result") << "\n"
        << found[i] << expected[i];
  }
}

/// Compares each case on two and three ranks, in each layout and by each exchange of attention.
void expect_same(const std::vector<std::pair<const char*, Case>>& cases) {
  for (const int ranks : {2, 3})
    run_ranks(ranks, [&](const Environment& environment) {
      Mesh mesh(environment, {.size = {1, 1, 1, ranks, 1}}, {.device = at::kCPU});
      for (const auto& [what, of] : cases)
        for (const Layout layout : {Layout::contiguous, Layout::zigzag, Layout::balanced})
          for (const Attention attention : {Attention::all_gather, Attention::all_to_all})
            expect_same(mesh, attention, layout, of, what);
    });
}

Batch batch_of(const Tensor& ids) {
  Batch batch;
  batch.input_ids = ids;
  return batch;
}

std::vector<Tensor> heads(int64_t key_heads = kHeads) {
  return {numbers({kBatch, kHeads, kSeq, 4}, 1), numbers({kBatch, key_heads, kSeq, 4}, 2),
          numbers({kBatch, key_heads, kSeq, 4}, 3)};
}

/// Ids; 1 for a token and 0 for padding at the beginning and the end; documents.
const Tensor kIds = at::arange(kBatch * kSeq).view({kBatch, kSeq}).remainder(7);
const Tensor kMask =
    at::tensor({0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}).view({kBatch, kSeq});
const Tensor kDocuments =
    at::tensor({0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3}).view({kBatch, kSeq});

/// Attention under a mask of this rank's part of the batch.
Case attention_under(const std::function<AttentionMask(const Batch&)>& mask_of, bool padded, bool documents,
                     int64_t key_heads = kHeads, std::optional<double> softcap = std::nullopt) {
  return {[=](const std::vector<Tensor>& x) {
            Batch batch = batch_of(cp::part(kIds));
            if (padded) batch.attention_mask = cp::part(kMask);
            if (documents) batch.documents = cp::part(kDocuments);
            return attention(x[0], x[1], x[2], mask_of(batch), 0.5, softcap);
          },
          heads(key_heads), 2, 1};
}

TEST(ContextFunctions, Attention) {
  std::vector<std::pair<const char*, Case>> cases;
  const auto causal = [](int64_t window) { return [=](const Batch& batch) { return causal_mask(batch, window); }; };
  const auto both_sides = [](int64_t reach) {
    return [=](const Batch& batch) { return bidirectional_mask(batch, reach); };
  };
  cases.emplace_back("causal", attention_under(causal(0), false, false));
  cases.emplace_back("causal with padding", attention_under(causal(0), true, false));
  cases.emplace_back("causal in documents", attention_under(causal(0), false, true));
  cases.emplace_back("window", attention_under(causal(3), true, true));
  cases.emplace_back("soft cap", attention_under(causal(3), true, false, kHeads, 3.0));
  cases.emplace_back("bidirectional", attention_under(both_sides(-1), true, false));
  cases.emplace_back("bidirectional in documents", attention_under(both_sides(-1), true, true));
  cases.emplace_back("near keys", attention_under(both_sides(2), true, false));
  expect_same(cases);
}

TEST(ContextFunctions, AttentionWithTensors) {
  std::vector<std::pair<const char*, Case>> cases;
  cases.emplace_back("biases", Case{[](const std::vector<Tensor>& x) {
                                      const Tensor biases = alibi_mask(batch_of(cp::part(kIds)),
                                                                       alibi_slopes(kHeads, at::kCPU), at::kFloat);
                                      return attention_with_biases(x[0], x[1], x[2], biases, 0.5);
                                    },
                                    heads(), 2, 1});
  cases.emplace_back("distances", Case{[](const std::vector<Tensor>& x) {
                                         const Tensor distances = key_distances(cp::part(kIds)).abs().to(at::kFloat);
                                         return attention(x[0], x[1], x[2], -distances.unsqueeze(0).unsqueeze(0), 0.5);
                                       },
                                       heads(), 2, 1});
  cases.emplace_back("visible keys", Case{[](const std::vector<Tensor>& x) {
                                            Batch batch = batch_of(cp::part(kIds));
                                            batch.documents = cp::part(kDocuments);
                                            const Tensor visible =
                                                visible_keys(causal_mask(batch, 4), x[0].size(2), at::kCPU);
                                            return attention(x[0], x[1], x[2], visible, 0.5);
                                          },
                                          heads(), 2, 1});
  cases.emplace_back("padding of an encoder", Case{[](const std::vector<Tensor>& x) {
                                                     Batch batch = batch_of(cp::part(kIds));
                                                     batch.attention_mask = cp::part(kMask);
                                                     return attention(x[0], x[1], x[2], key_mask(batch), 0.5);
                                                   },
                                                   heads(), 2, 1});
  cases.emplace_back("sinks", Case{[](const std::vector<Tensor>& x) {
                                     return attention_with_sinks(x[0], x[1], x[2],
                                                                 causal_mask(batch_of(cp::part(kIds)), 4), 0.5,
                                                                 numbers({kHeads}, 4));
                                   },
                                   heads(), 2, 1});
  expect_same(cases);
}

TEST(ContextFunctions, Labels) {
  std::vector<std::pair<const char*, Case>> cases;
  cases.emplace_back("next", Case{[](const std::vector<Tensor>& x) { return next_tokens(x[0]); }, {kIds}});
  cases.emplace_back("previous",
                     Case{[](const std::vector<Tensor>& x) { return previous_tokens(x[0], 9, 8); }, {kIds}});
  expect_same(cases);
}

TEST(ContextFunctions, Positions) {
  std::vector<std::pair<const char*, Case>> cases;
  const auto rows = [](const Tensor& positions) { return positions.expand({kBatch, -1}); };
  cases.emplace_back("batch",
                     Case{[=](const std::vector<Tensor>& x) { return rows(position_ids(batch_of(x[0]))); }, {kIds}});
  cases.emplace_back("ids", Case{[=](const std::vector<Tensor>& x) { return rows(position_ids(x[0])); }, {kIds}});
  cases.emplace_back("counted",
                     Case{[](const std::vector<Tensor>& x) { return counted_position_ids(x[0], 3); }, {kIds}});
  RopeParameters rope;
  rope.rope_type = "dynamic";
  rope.factor = 2.0;
  cases.emplace_back("by length",
                     Case{[=](const std::vector<Tensor>& x) {
                            Batch batch = batch_of(x[0]);
                            batch.documents = x[1];
                            return rotary_tables(rope, 8, /*max_position_embeddings=*/5, batch, at::kFloat).first;
                          },
                          {kIds, kDocuments}});
  expect_same(cases);
}

TEST(ContextFunctions, Pooling) {
  std::vector<std::pair<const char*, Case>> cases;
  const Tensor states = numbers({kBatch, kSeq, 4}, 1);
  const auto of = [&](const Function& pool) { return Case{pool, {states, kMask, kIds}, 1, std::nullopt}; };
  cases.emplace_back("mean", of([](const std::vector<Tensor>& x) { return mean_pooling(x[0], {}); }));
  cases.emplace_back("mean of tokens", of([](const std::vector<Tensor>& x) { return mean_pooling(x[0], x[1]); }));
  cases.emplace_back("first", of([](const std::vector<Tensor>& x) { return first_tokens(x[0]); }));
  cases.emplace_back("last", of([](const std::vector<Tensor>& x) { return last_tokens(x[0], x[2], 4); }));
  cases.emplace_back("chosen", of([](const std::vector<Tensor>& x) { return tokens_at(x[0], at::tensor({3, 11})); }));
  cases.emplace_back("embedding head", of([](const std::vector<Tensor>& x) {
                       Batch batch = batch_of(x[2]);
                       batch.attention_mask = x[1];
                       EmbeddingHeadConfig config;
                       config.pooling = "max";
                       EmbeddingHeadImpl head(config, 4);
                       batch.embedding_head = &head;
                       return sentence_embeddings(x[0], batch);
                     }));
  expect_same(cases);
}

TEST(ContextFunctions, StateSpaces) {
  std::vector<std::pair<const char*, Case>> cases;
  const Tensor x = numbers({kBatch, kSeq, 4}, 1), step = numbers({kBatch, kSeq, 4}, 2).exp();
  const Tensor write = numbers({kBatch, kSeq, 3}, 3), read = numbers({kBatch, kSeq, 3}, 4);
  cases.emplace_back("convolution", Case{[](const std::vector<Tensor>& in) {
                                           return causal_conv1d(in[0], numbers({4, 1, 3}, 6), numbers({4}, 7));
                                         },
                                         {x}});
  cases.emplace_back("scan", Case{[](const std::vector<Tensor>& in) {
                                    return selective_scan(in[0], in[1], -numbers({4, 3}, 6).exp(), in[2], in[3],
                                                          numbers({4}, 7));
                                  },
                                  {x, step, write, read}});
  for (const int64_t chunk : {2, 256})
    cases.emplace_back("duality",
                       Case{[=](const std::vector<Tensor>& in) {
                              const auto split = [](const Tensor& y) { return y.unsqueeze(2).expand({-1, -1, 2, -1}); };
                              const Tensor values = in[0].unsqueeze(-1) * numbers({5}, 8);  // [batch, seq, heads, 5]
                              return state_space_duality(values, in[1], -numbers({4}, 6).exp(), split(in[2]),
                                                         split(in[3]), numbers({4}, 7), chunk);
                            },
                            {x, step, write, read}});
  expect_same(cases);
}

/// The micro-batches of a pipeline run interleaved: a backward, and a recomputed forward, has the positions of its own
/// forward.
TEST(ContextFunctions, BackwardsKeepThePositionsOfTheirForwards) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh(environment, {.size = {1, 1, 1, 2, 1}}, {.device = at::kCPU});
    ContextRanks ranks(mesh.group({Axis::cp}), Attention::all_gather, Layout::balanced, {});
    Parallel parallel;
    parallel.context = &ranks;
    const Binding binding(parallel);
    divide(ranks, irregular_runs(2));
    const Tensor all = at::arange(kSeq, at::kFloat).unsqueeze(0);
    const Tensor own = cp::part(all).requires_grad_();
    const Tensor gathered = cp::whole(own);
    EXPECT_TRUE(gathered.equal(all)) << gathered;
    const std::function<void()> restore = ranks.save_position();
    divide(ranks, contiguous_runs(2));
    EXPECT_FALSE(cp::part(all).equal(own));
    torch::autograd::backward({(gathered * all).sum()}, {});
    EXPECT_TRUE(own.grad().equal(own * 2)) << own.grad();
    restore();
    EXPECT_TRUE(cp::part(all).equal(own));
  });
}

TEST(ContextFunctions, ConvolutionsNeedRunsOfTheirWidth) {
  run_ranks(2, [](const Environment& environment) {
    Mesh mesh(environment, {.size = {1, 1, 1, 2, 1}}, {.device = at::kCPU});
    ContextRanks ranks(mesh.group({Axis::cp}), Attention::all_gather, Layout::zigzag, {});
    Parallel parallel;
    parallel.context = &ranks;
    const Binding binding(parallel);
    EXPECT_ANY_THROW(causal_conv1d(at::ones({1, 2, 4}), at::ones({4, 1, 3}), {}));
  });
}

}  // namespace
}  // namespace modular::testing
