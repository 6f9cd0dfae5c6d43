#include "runtime/parallel/tensor/dealt_runs.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace modular {

std::vector<cp::Run> DealtRuns::of(int64_t rank, int64_t count) const {
  const int64_t per_rank = runs_of_a_rank(), size = count / per_rank;
  TORCH_INTERNAL_ASSERT(count % per_rank == 0, per_rank, " runs cannot divide the ", count, " positions of a rank");
  std::vector<cp::Run> runs;
  for (int64_t i = rank * per_rank; i < (rank + 1) * per_rank; ++i)
    runs.push_back({numbers[static_cast<size_t>(i)] * size, size});
  return runs;
}

DealtRuns contiguous_runs(int64_t ranks) {
  DealtRuns dealt{ranks, std::vector<int64_t>(static_cast<size_t>(ranks))};
  std::iota(dealt.numbers.begin(), dealt.numbers.end(), 0);
  return dealt;
}

DealtRuns zigzag_runs(int64_t ranks) {
  DealtRuns dealt{ranks, {}};
  for (int64_t rank = 0; rank < ranks; ++rank) dealt.numbers.insert(dealt.numbers.end(), {rank, 2 * ranks - 1 - rank});
  return dealt;
}

DealtRuns balanced_runs(std::span<const int64_t> costs, int64_t ranks) {
  const size_t per_rank = costs.size() / static_cast<size_t>(ranks);
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t run) { return costs[run]; });
  struct Hand {
    int64_t cost = 0;
    std::vector<int64_t> runs;
  };
  std::vector<Hand> hands(static_cast<size_t>(ranks));
  for (const size_t run : order) {
    Hand* least = nullptr;
    for (Hand& hand : hands)
      if (hand.runs.size() < per_rank && (!least || hand.cost < least->cost)) least = &hand;
    least->cost += costs[run];
    least->runs.push_back(static_cast<int64_t>(run));
  }
  DealtRuns dealt{ranks, {}};
  for (Hand& hand : hands) {
    std::ranges::sort(hand.runs);
    dealt.numbers.insert(dealt.numbers.end(), hand.runs.begin(), hand.runs.end());
  }
  return dealt;
}

int64_t balanced_run_count(int64_t length, int64_t ranks) {
  constexpr int64_t kMost = 16, kShortestRun = 4;
  int64_t runs = kMost;
  while (runs > 1 && length < runs * ranks * kShortestRun) runs /= 2;
  return runs;
}

int64_t positions_of_rank(int64_t length, int64_t ranks, int64_t runs) {
  const int64_t unit = runs * ranks;
  // Dropout tells a pooled value from positions by the number of rows, which is 1.
  return std::max<int64_t>((length + unit - 1) / unit * runs, 2);
}

std::vector<int64_t> visible_keys_of_runs(const Batch& batch, int64_t runs, int64_t padded, bool causal) {
  const int64_t rows = batch.input_ids.size(0), length = batch.input_ids.size(1), size = padded / runs;
  const auto on_host = [](const Tensor& x) { return x.defined() ? x.cpu().to(at::kLong).contiguous() : Tensor(); };
  const Tensor mask = on_host(batch.attention_mask), documents = on_host(batch.documents);
  std::vector<int64_t> costs(static_cast<size_t>(runs));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* const tokens = mask.defined() ? mask.const_data_ptr<int64_t>() + row * length : nullptr;
    const int64_t* const document = documents.defined() ? documents.const_data_ptr<int64_t>() + row * length : nullptr;
    std::unordered_map<int64_t, int64_t> seen;  // keys so far, by document
    const auto keys_with = [&](int64_t i) -> int64_t& {
      int64_t& keys = seen[document ? document[i] : 0];
      return keys += !tokens || tokens[i] != 0;
    };
    if (!causal)
      for (int64_t i = 0; i < length; ++i) keys_with(i);
    for (int64_t i = 0; i < padded; ++i) {
      int64_t& cost = costs[static_cast<size_t>(i / size)];
      // Padding at the end is in a document of its own, if there are documents.
      if (i >= length)
        cost += document ? 0 : seen[0];
      else
        cost += causal ? keys_with(i) : seen[document ? document[i] : 0];
    }
  }
  return costs;
}

}  // namespace modular
