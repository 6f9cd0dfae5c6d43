// Each tensor-parallel operation compared with the same operation on one process, forward and backward.
#include "runtime/parallel/tensor/tensor_parallel.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <string_view>

#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

using testing::run_ranks;

using Body = std::function<void(tp::TensorParallel&, int64_t rank, int64_t size)>;
using Sizes = std::optional<std::vector<int64_t>>;

/// Runs `body` on `ranks` ranks with the same seed: randomly initialized values are replicated.
void on_ranks(int ranks, const Body& body, const Sizes& uneven = {}) {
  run_ranks(ranks, [&](const Environment& environment) {
    MeshShape shape;
    shape[Axis::tp] = environment.world_size;
    Mesh mesh(environment, shape, {.device = at::kCPU});
    at::manual_seed(7);
    const auto parallel = make_tensor_parallel(mesh.group({Axis::tp}), {}, uneven);
    body(*parallel, mesh.rank(), environment.world_size);
    barrier(mesh.world(), "the end");
  });
}

void on_2_and_4_ranks(const Body& body) {
  on_ranks(2, body);
  on_ranks(4, body);
}

/// A rank's slice as in torch.chunk: the last ones may be shorter or empty.
Tensor take_shard(const Tensor& full, int64_t dim, int64_t rank, int64_t size) {
  const auto chunks = full.chunk(size, dim);
  if (rank < static_cast<int64_t>(chunks.size())) return chunks[rank].detach().contiguous();
  return full.narrow(dim, 0, 0).detach().contiguous();
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  const double difference = (actual - expected).to(at::kDouble).norm().item<double>();
  EXPECT_LE(difference, tolerance * expected.to(at::kDouble).norm().item<double>()) << what;
}

TEST(TensorParallel, EnterIsTheIdentityAndSumsGradients) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    Tensor x = at::randn({3, 4}).requires_grad_();
    const Tensor weight = at::randn({size, 3, 4});
    const Tensor entered = parallel.enter(x);
    EXPECT_TRUE(entered.equal(x));
    (entered * weight[rank]).sum().backward();
    expect_close(x.grad(), weight.sum(0), 1e-6, "gradient");
  });
}

TEST(TensorParallel, ColumnAndRowParallelLinearMatchFullLayers) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    const Tensor input = at::randn({2, 5, 8}), up = at::randn({16, 8}), down = at::randn({8, 16});
    Tensor full_x = input.clone().requires_grad_(), full_up = up.clone().requires_grad_(),
           full_down = down.clone().requires_grad_();
    const Tensor expected = at::linear(at::silu(at::linear(full_x, full_up)), full_down);
    expected.pow(2).sum().backward();

    Tensor x = input.clone().requires_grad_(), local_up = take_shard(up, 0, rank, size).requires_grad_(),
           local_down = take_shard(down, 1, rank, size).requires_grad_();
    const Tensor result = parallel.reduce(at::linear(at::silu(at::linear(parallel.enter(x), local_up)), local_down));
    expect_close(result, expected, 1e-5, "result");
    result.pow(2).sum().backward();
    expect_close(x.grad(), full_x.grad(), 1e-5, "input's gradient");
    expect_close(local_up.grad(), take_shard(full_up.grad(), 0, rank, size), 1e-5, "column-split weight's gradient");
    expect_close(local_down.grad(), take_shard(full_down.grad(), 1, rank, size), 1e-5, "row-split weight's gradient");
  });
}

TEST(TensorParallel, ReduceLeavesItsInputAlone) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t, int64_t size) {
    const Tensor partial = at::ones({3});
    const Tensor sum = parallel.reduce(partial);
    EXPECT_TRUE(partial.eq(1).all().item<bool>());
    EXPECT_TRUE(sum.eq(size).all().item<bool>());
  });
}

/// Gathers slices of `length` elements in total along `dim`, and expects this number of collectives.
void expect_gathered(tp::TensorParallel& parallel, int64_t rank, int64_t size, int64_t dim, int64_t length,
                     int64_t collectives) {
  std::vector<int64_t> shape = {4, 8, 12};
  shape[static_cast<size_t>(dim < 0 ? dim + 3 : dim)] = length;
  const Tensor full = at::randn(shape), weight = at::randn(shape);
  Tensor shard = take_shard(full, dim, rank, size).requires_grad_();
  const int64_t before = traffic().collectives;
  const Tensor gathered = parallel.gather(shard, dim);
  EXPECT_EQ(traffic().collectives - before, collectives) << length << " elements along " << dim;
  EXPECT_TRUE(gathered.equal(full)) << dim;
  (gathered * weight).sum().backward();
  EXPECT_EQ(traffic().collectives - before, collectives) << "its backward needs none";
  EXPECT_TRUE(shard.grad().equal(take_shard(weight, dim, rank, size))) << dim;
}

constexpr std::pair<int64_t, int64_t> kGathered[] = {{0, 12}, {1, 12}, {-1, 12}, {0, 5}, {1, 7}, {-1, 5}, {-1, 3}};

TEST(TensorParallel, GatherConcatenatesAlongAnyDimension) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    for (const auto& [dim, length] : kGathered)
      expect_gathered(parallel, rank, size, dim, length, /*collectives=*/2);  // the slices, and their lengths
  });
}

TEST(TensorParallel, GatherDoesNotCommunicateKnownLengths) {
  for (const int ranks : {2, 4}) {
    for (const int64_t uneven : {3, 5, 7}) {
      on_ranks(
          ranks,
          [&](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
            for (const auto& [dim, length] : kGathered)
              if (length == uneven || length % size == 0)
                expect_gathered(parallel, rank, size, dim, length, /*collectives=*/1);
          },
          std::vector<int64_t>{uneven});
    }
  }
}

TEST(TensorParallel, VocabularyParallelEmbeddingMatchesTheFullOne) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    using Padding = std::optional<int64_t>;
    for (const auto& [rows, padding] :
         {std::pair(12, Padding()), std::pair(12, Padding(0)), std::pair(12, Padding(11)), std::pair(13, Padding(12)),
          std::pair(11, Padding(10)), std::pair(5, Padding(4)), std::pair(5, Padding(2)), std::pair(3, Padding())}) {
      const Tensor table = at::randn({rows, 6}, at::kDouble), weight = at::randn({3, 7, 6}, at::kDouble);
      const Tensor ids = at::randint(0, rows, {3, 7}, at::kLong);
      ids[0].copy_(at::tensor({0, rows - 1, 0, rows - 1, rows / 2, rows / 2 - 1, 0}));
      Tensor full = table.clone().requires_grad_();
      const Tensor expected = at::embedding(full, ids, padding.value_or(-1));
      (expected * weight).sum().backward();

      Tensor local = take_shard(table, 0, rank, size).requires_grad_();
      const Tensor result = parallel.embedding(ids, local, rows, padding);
      EXPECT_TRUE(result.equal(expected));
      (result * weight).sum().backward();
      expect_close(local.grad(), take_shard(full.grad(), 0, rank, size), 1e-12, "table's gradient");
    }
  });
}

/// Targets of which some, and one full row, are ignored.
Tensor some_targets(int64_t vocabulary) {
  Tensor targets = at::randint(0, vocabulary, {3, 5}, at::kLong);
  targets[0][1] = kIgnoredTarget;
  targets[2].fill_(kIgnoredTarget);
  return targets;
}

TEST(TensorParallel, VocabularyParallelCrossEntropyMatchesTheFullOne) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    for (const auto& [type, words] :
         {std::pair(at::kFloat, 16), std::pair(at::kBFloat16, 16), std::pair(at::kFloat, 17), std::pair(at::kFloat, 15),
          std::pair(at::kFloat, 5), std::pair(at::kBFloat16, 3)}) {
      // Large logits: without subtracting the maximum, the exponentials overflow.
      const Tensor logits = (at::randn({3, 5, words}) * 50 + (words % 2 == 0 ? 200 : -200)).to(type);
      const Tensor targets = some_targets(words);
      Tensor full = logits.clone().requires_grad_();
      const Tensor expected = modular::cross_entropy(full, targets);
      (expected * 0.25).backward();

      Tensor local = take_shard(logits, -1, rank, size).requires_grad_();
      const Tensor loss = parallel.cross_entropy(local, targets);
      expect_close(loss, expected, 1e-6, "loss");
      (loss * 0.25).backward();
      expect_close(local.grad(), take_shard(full.grad(), -1, rank, size), type == at::kFloat ? 1e-5 : 1e-2, "gradient");
    }
  });
}

int64_t selections = 0;

std::unique_ptr<at::ObserverContext> note_selection(const at::RecordFunction& operation) {
  selections += std::string_view(operation.name()) == "aten::masked_select";
  return nullptr;
}

/// The size of a selection would require a GPU sync.
TEST(TensorParallel, CrossEntropyDoesNotSelectTargets) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    const Tensor logits = at::randn({3, 5, 16}), targets = some_targets(16);
    const auto callback =
        at::addThreadLocalCallback(at::RecordFunctionCallback(note_selection).scopes({at::RecordScope::FUNCTION}));
    targets.masked_select(targets.eq(0));
    EXPECT_EQ(selections, 1) << "the test's own selection is counted";
    parallel.cross_entropy(take_shard(logits, -1, rank, size), targets);
    EXPECT_EQ(selections, 1);
    at::removeCallback(callback);
  });
}

TEST(TensorParallel, NormOverShardedValuesMatchesTheFullOne) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Tensor values = at::randn({3, 5, 16}, at::kDouble).to(type), scale = at::randn({16}, at::kDouble).to(type),
                   upstream = at::randn({3, 5, 16}, at::kDouble).to(type);
      Tensor full_x = values.clone().requires_grad_(), full_weight = scale.clone().requires_grad_();
      const Tensor expected = modular::rms_norm(full_x, full_weight, 1e-3);
      expected.backward(upstream);

      Tensor x = take_shard(values, -1, rank, size).requires_grad_(),
             weight = take_shard(scale, 0, rank, size).requires_grad_();
      const Binding woven({.tp = &parallel});
      const Tensor result = tp::rms_norm(x, weight, 1e-3);
      const double tolerance = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-6 : 1e-2;
      expect_close(result, take_shard(expected, -1, rank, size), tolerance, "result");
      result.backward(take_shard(upstream, -1, rank, size));
      expect_close(x.grad(), take_shard(full_x.grad(), -1, rank, size), tolerance, "input's gradient");
      expect_close(weight.grad(), take_shard(full_weight.grad(), 0, rank, size), tolerance, "weight's gradient");
    }
  });
}

TEST(TensorParallel, SinksAndAlibiOfARanksHeadsMatchTheFullAttention) {
  on_2_and_4_ranks([](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    for (const int64_t heads : {4, 12}) {
      std::vector<Tensor> full, own;
      for (int i = 0; i < 3; ++i) full.push_back(at::randn({2, heads, 7, 6}, at::kDouble).requires_grad_());
      full.push_back(at::randn({heads}, at::kDouble).requires_grad_());
      for (const Tensor& tensor : full)
        own.push_back(take_shard(tensor, tensor.dim() == 1 ? 0 : 1, rank, size).requires_grad_());
      Batch batch;
      batch.input_ids = at::zeros({2, 7}, at::kLong);
      batch.attention_mask = at::ones({2, 7}, at::kLong);
      batch.attention_mask[0].slice(0, 0, 3).zero_();
      const auto attend = [&](const std::vector<Tensor>& of, const Tensor& slopes) {
        const Tensor biases = alibi_mask(batch, slopes, at::kDouble);
        return attention_with_biases(of[0], of[1], of[2], biases, 0.4) +
               attention_with_sinks(of[0], of[1], of[2], causal_mask(batch, /*window=*/0), 0.4, of[3]);
      };
      const Tensor expected = attend(full, alibi_slopes(heads, at::kCPU)), upstream = at::randn_like(expected);
      expected.backward(upstream);

      const Binding woven({.tp = &parallel});
      const Tensor result = attend(own, tp::alibi_slopes(heads / size, at::kCPU));
      expect_close(result, take_shard(expected, -1, rank, size), 1e-12, "result");
      result.backward(take_shard(upstream, -1, rank, size));
      for (size_t i = 0; i < own.size(); ++i)
        expect_close(own[i].grad(), take_shard(full[i].grad(), i == 3 ? 0 : 1, rank, size), 1e-12, "gradient");
    }
  });
}

/// Returns the error message of `run`.
std::string find_error(const std::function<void()>& run) {
  try {
    run();
  } catch (const c10::IndexError& error) {
    return error.what_without_backtrace();
  }
  return "nothing";
}

TEST(TensorParallel, RejectsIdsAndTargetsBeyondTheVocabulary) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    for (const auto& [words, wrong] : {std::pair(16, 16), std::pair(16, -1), std::pair(15, 15), std::pair(15, -1)}) {
      const Tensor logits = at::randn({1, 3, words}), table = at::randn({words, 4});
      const Tensor targets = at::tensor({int64_t{3}, kIgnoredTarget, int64_t{wrong}}).view({1, 3});
      const std::string expected = find_error([&] { modular::cross_entropy(logits, targets); });
      EXPECT_EQ(expected, "Target " + std::to_string(wrong) + " is out of bounds.");
      EXPECT_EQ(find_error([&] { parallel.cross_entropy(take_shard(logits, -1, rank, size), targets); }), expected);

      const Tensor ids = at::tensor({int64_t{3}, int64_t{wrong}}).view({1, 2});
      EXPECT_EQ(find_error([&] { parallel.embedding(ids, take_shard(table, 0, rank, size), words, {}); }),
                find_error([&] { at::embedding(table, ids); }));
    }
  });
}

TEST(TensorParallel, OnlyIgnoredTargetsGiveZeroLossAndGradient) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t, int64_t) {
    Tensor local = at::randn({2, 3, 4}).requires_grad_();
    const Tensor loss = parallel.cross_entropy(local, at::full({2, 3}, kIgnoredTarget, at::kLong));
    EXPECT_EQ(loss.item<float>(), 0.0F);
    loss.backward();
    EXPECT_TRUE(local.grad().eq(0).all().item<bool>());
  });
}

TEST(TensorParallel, WorksInBfloat16AndWithoutGradients) {
  on_ranks(2, [](tp::TensorParallel& parallel, int64_t rank, int64_t size) {
    at::NoGradGuard no_grad;
    const Tensor full = at::randn({4, 8}).to(at::kBFloat16);
    EXPECT_TRUE(parallel.gather(take_shard(full, -1, rank, size), -1).equal(full));
    EXPECT_EQ(parallel.reduce(full).scalar_type(), at::kBFloat16);
    EXPECT_FALSE(parallel.enter(full).requires_grad());
  });
}

}  // namespace
}  // namespace modular
