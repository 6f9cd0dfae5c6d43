// Forwards that continue from a cache, compared with forwards over the full sequence and with transformers' cached
// generation, in every case of the families that support it.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// The input of one forward of a language model: the batch's tokens from `first` on, and their other inputs.
Batch find_part(const Batch& batch, int64_t first, int64_t size) {
  Batch part;
  part.input_ids = batch.input_ids.narrow(1, first, size);
  if (batch.feature_ids.defined()) part.feature_ids = batch.feature_ids.narrow(1, first, size);
  if (batch.feature_values.defined()) part.feature_values = batch.feature_values.narrow(1, first, size);
  return part;
}

/// The parts in which a sequence of `seq` tokens is given: a prompt, single tokens, and parts of several tokens.
std::vector<int64_t> sizes_for(int64_t seq) { return {9, 1, 1, 5, 1, seq - 17}; }

double largest_difference(const at::Tensor& one, const at::Tensor& other) {
  EXPECT_EQ(one.sizes(), other.sizes());
  return (one.to(at::kDouble) - other.to(at::kDouble)).abs().max().item<double>();
}

/// A case's model on a mesh, and its batch.
struct Loaded {
  ModelConfig config;
  ParallelModel model;
  Batch batch;

  Loaded(const fs::path& folder, Mesh& mesh)
      : config(read_config(folder)),
        model(*config.entry, *config.config, mesh, {}, /*seed=*/0),
        batch(read_examples(SafetensorsFile(folder / "batch.safetensors"), config)) {
    load_parameters(folder, config, get_slices(model));
    model.parameters_changed();
  }
};

bool can_cache(const fs::path& folder) { return find_task(read_config(folder).entry->task)->cached; }

/// Largest difference between the logits of a cached forward and those of a forward over all tokens up to there. If the
/// cache is spoiled, a new one begins; `spoiled` counts such cases.
double cached_against_full(Loaded& loaded, int64_t& spoiled) {
  double largest = 0.0;
  auto cache = std::make_unique<cache::Cache>(/*expected=*/loaded.batch.input_ids.size(1) / 3);  // too few: it grows
  int64_t end = 0;
  for (const int64_t size : sizes_for(loaded.batch.input_ids.size(1))) {
    end += size;
    at::Tensor logits = loaded.model.logits(find_part(loaded.batch, end - size, size), cache.get());
    EXPECT_EQ(cache->seen(), end);
    if (cache->spoiled()) {
      ++spoiled;
      cache = std::make_unique<cache::Cache>();
      logits = loaded.model.logits(find_part(loaded.batch, 0, end), cache.get()).narrow(1, end - size, size);
      EXPECT_FALSE(cache->spoiled());
    }
    const at::Tensor full = loaded.model.logits(find_part(loaded.batch, 0, end)).narrow(1, end - size, size);
    largest = std::max(largest, largest_difference(logits, full));
  }
  return largest;
}

/// Whether the case's RoPE tables depend on the sequence's length.
bool changes_with_length(const std::string& name) {
  return name.ends_with("rope-dynamic") || name.ends_with("longrope-long");
}

TEST(Cached, LogitsMatchFullSequences) {
  at::set_num_threads(1);
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) {
    if (!can_cache(folder)) continue;
    const std::string name = folder.filename();
    SCOPED_TRACE(name);
    Loaded loaded(folder, mesh);
    int64_t spoiled = 0;
    EXPECT_LE(cached_against_full(loaded, spoiled), 1e-5);
    EXPECT_EQ(spoiled > 0, changes_with_length(name));
  }
}

TEST(Cached, LogitsMatchTransformersCachedGeneration) {
  at::set_num_threads(1);
  Mesh mesh(Environment{}, MeshShape{});
  fmt::print("{:<32} {:>10}\n", "case", "logits");
  for (const fs::path& folder : parity::folders("numbers")) {
    if (!fs::exists(folder / "cached.safetensors")) continue;
    SCOPED_TRACE(folder.filename().string());
    ASSERT_TRUE(can_cache(folder));
    Loaded loaded(folder, mesh);
    const at::Tensor expected = SafetensorsFile(folder / "cached.safetensors").tensor("logits");
    const int64_t seq = expected.size(1), prompt = parity::read_json(folder / "case.json").at("prompt");
    cache::Cache cache;
    std::vector<at::Tensor> logits = {loaded.model.logits(find_part(loaded.batch, 0, prompt), &cache)};
    for (int64_t next = prompt; next < seq; ++next)
      logits.push_back(loaded.model.logits(find_part(loaded.batch, next, 1), &cache));
    const double difference = largest_difference(at::cat(logits, 1), expected);
    fmt::print("{:<32} {:10.1e}\n", folder.filename().string(), difference);
    EXPECT_LE(difference, 1e-5);
  }
}

/// A batch's rows truncated to several lengths and left-padded: row r leaves out its last kLess times r tokens.
struct Ragged {
  static constexpr int64_t kLess = 4, kSteps = 3;
  const at::Tensor& ids;
  int64_t rows = ids.size(0), longest = ids.size(1) - kSteps;

  /// Number of a row's tokens that belong to its prompt; kSteps follow.
  int64_t prompt(int64_t row) const { return longest - kLess * row; }
  at::Tensor present(int64_t seen) const {
    std::vector<at::Tensor> of_rows;
    for (int64_t row = 0; row < rows; ++row) of_rows.push_back(at::arange(seen) >= longest - prompt(row));
    return at::stack(of_rows);
  }
  Batch prompts() const {
    Batch batch;
    std::vector<at::Tensor> of_rows;
    for (int64_t row = 0; row < rows; ++row)
      of_rows.push_back(at::constant_pad_nd(ids[row].narrow(0, 0, prompt(row)), {longest - prompt(row), 0}));
    batch.input_ids = at::stack(of_rows), batch.attention_mask = present(longest);
    return batch;
  }
  Batch step(int64_t number) const {
    Batch batch;
    std::vector<at::Tensor> of_rows;
    for (int64_t row = 0; row < rows; ++row) of_rows.push_back(ids[row].narrow(0, prompt(row) + number, 1));
    batch.input_ids = at::stack(of_rows), batch.attention_mask = present(longest + number + 1);
    return batch;
  }
};

/// Largest difference between the logits of rows that are generated together and those of each row alone.
double padded_against_alone(Loaded& loaded, bool& spoiled) {
  const Ragged ragged{loaded.batch.input_ids};
  cache::Cache cache;
  double largest = 0.0;
  for (int64_t number = 0; number <= Ragged::kSteps; ++number) {
    const Batch batch = number == 0 ? ragged.prompts() : ragged.step(number - 1);
    const at::Tensor logits = loaded.model.logits(batch, &cache);
    if ((spoiled = cache.spoiled())) return 0.0;
    for (int64_t row = 0; row < ragged.rows; ++row) {
      Batch alone;
      alone.input_ids = ragged.ids.narrow(0, row, 1).narrow(1, 0, ragged.prompt(row) + number);
      largest = std::max(largest, largest_difference(logits[row][-1], loaded.model.logits(alone)[0][-1]));
    }
  }
  return largest;
}

TEST(Cached, SequencesOfSeveralLengthsMatchEachOneAlone) {
  at::set_num_threads(1);
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) {
    if (!can_cache(folder)) continue;
    const std::string name = folder.filename();
    SCOPED_TRACE(name);
    Loaded loaded(folder, mesh);
    if (loaded.batch.feature_ids.defined() || loaded.batch.feature_values.defined()) continue;
    bool spoiled = false;
    EXPECT_LE(padded_against_alone(loaded, spoiled), 1e-5);
    // Each row's tables change at its own length, which these rows may not exceed.
    EXPECT_TRUE(!spoiled || changes_with_length(name));
  }
}

TEST(Cached, EveryRankKeepsItsOwnPart) {
  for (const MeshShape shape : {MeshShape{{1, 1, 1, 1, 2}}, MeshShape{{2, 1, 1, 1, 1}}, MeshShape{{1, 1, 2, 1, 2}}}) {
    SCOPED_TRACE(fmt::format("tp {}, pp {}, dp_shard {}", shape[Axis::tp], shape[Axis::pp], shape[Axis::dp_shard]));
    testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
      Mesh mesh(environment, shape);
      for (const fs::path& folder : parity::folders("numbers")) {
        if (!parity::read_json(folder / "case.json").at("meshes") || !can_cache(folder)) continue;
        SCOPED_TRACE(folder.filename().string());
        Loaded loaded(folder, mesh);
        int64_t spoiled = 0;
        EXPECT_LE(cached_against_full(loaded, spoiled), 1e-5);
        EXPECT_EQ(spoiled, 0);
      }
    });
  }
}

TEST(Cached, RejectsUnsupportedContinuations) {
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) {
    if (can_cache(folder)) continue;
    SCOPED_TRACE(folder.filename().string());
    Loaded loaded(folder, mesh);
    cache::Cache cache;
    EXPECT_FALSE(loaded.model.can_cache());
    EXPECT_THROW(loaded.model.logits(loaded.batch, &cache), c10::Error);
  }
}

}  // namespace
}  // namespace modular
