// Forwards that continue from a cache against forwards over the whole sequence, and against transformers' cached
// generation, in every case of the families that can.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/examples.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"
#include "tests/support/ranks.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// What one forward reads of a batch for a language model: tokens from `first` on, and what belongs to them.
Batch find_part(const Batch& batch, int64_t first, int64_t size) {
  Batch part;
  part.input_ids = batch.input_ids.narrow(1, first, size);
  if (batch.feature_ids.defined()) part.feature_ids = batch.feature_ids.narrow(1, first, size);
  if (batch.feature_values.defined()) part.feature_values = batch.feature_values.narrow(1, first, size);
  return part;
}

/// The parts that a sequence of `seq` tokens is given in: a prompt, single tokens, and further parts of several.
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

/// The largest difference between logits of a cached forward and those of one over all tokens up to there. Where the
/// cache is spoiled, a new one begins; `spoiled` counts that.
double cached_against_whole(Loaded& of, int64_t& spoiled) {
  double largest = 0.0;
  auto cache = std::make_unique<cache::Cache>(/*expected=*/of.batch.input_ids.size(1) / 3);  // too few: it grows
  int64_t end = 0;
  for (const int64_t size : sizes_for(of.batch.input_ids.size(1))) {
    end += size;
    at::Tensor logits = of.model.logits(find_part(of.batch, end - size, size), cache.get());
    EXPECT_EQ(cache->seen(), end);
    if (cache->spoiled()) {
      ++spoiled;
      cache = std::make_unique<cache::Cache>();
      logits = of.model.logits(find_part(of.batch, 0, end), cache.get()).narrow(1, end - size, size);
      EXPECT_FALSE(cache->spoiled());
    }
    const at::Tensor whole = of.model.logits(find_part(of.batch, 0, end)).narrow(1, end - size, size);
    largest = std::max(largest, largest_difference(logits, whole));
  }
  return largest;
}

/// Whether the case's rotary tables are of a kind that changes with the sequence's length.
bool changes_with_length(const std::string& name) {
  return name.ends_with("rope-dynamic") || name.ends_with("longrope-long");
}

TEST(Cached, LogitsAreThoseOfWholeSequences) {
  at::set_num_threads(1);
  Mesh mesh(Environment{}, MeshShape{});
  for (const fs::path& folder : parity::folders("numbers")) {
    if (!can_cache(folder)) continue;
    const std::string name = folder.filename();
    SCOPED_TRACE(name);
    Loaded loaded(folder, mesh);
    int64_t spoiled = 0;
    EXPECT_LE(cached_against_whole(loaded, spoiled), 1e-5);
    EXPECT_EQ(spoiled > 0, changes_with_length(name));
  }
}

TEST(Cached, LogitsAreThoseOfTransformersCachedGeneration) {
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

/// A batch's rows cut to several lengths and padded before them: row r leaves out its last tokens, kLess times r.
struct Ragged {
  static constexpr int64_t kLess = 4, kSteps = 3;
  const at::Tensor& ids;
  int64_t rows = ids.size(0), longest = ids.size(1) - kSteps;

  /// Of a row's tokens, those of its prompt; kSteps follow.
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

/// The largest difference between logits of rows that are generated together and those of each row by itself.
double padded_against_alone(Loaded& of, bool& spoiled) {
  const Ragged ragged{of.batch.input_ids};
  cache::Cache cache;
  double largest = 0.0;
  for (int64_t number = 0; number <= Ragged::kSteps; ++number) {
    const Batch batch = number == 0 ? ragged.prompts() : ragged.step(number - 1);
    const at::Tensor logits = of.model.logits(batch, &cache);
    if ((spoiled = cache.spoiled())) return 0.0;
    for (int64_t row = 0; row < ragged.rows; ++row) {
      Batch alone;
      alone.input_ids = ragged.ids.narrow(0, row, 1).narrow(1, 0, ragged.prompt(row) + number);
      largest = std::max(largest, largest_difference(logits[row][-1], of.model.logits(alone)[0][-1]));
    }
  }
  return largest;
}

TEST(Cached, SequencesOfSeveralLengthsAreWhatEachIsAlone) {
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
    // Each row's tables change at a length of its own, which these rows may not pass.
    EXPECT_TRUE(!spoiled || changes_with_length(name));
  }
}

TEST(Cached, EveryMeshKeepsItsOwnPart) {
  for (const MeshShape shape :
       {MeshShape{{1, 1, 1, 1, 1, 2}}, MeshShape{{2, 1, 1, 1, 1, 1}}, MeshShape{{1, 1, 2, 1, 1, 2}}}) {
    SCOPED_TRACE(fmt::format("tp {}, pp {}, dp_shard {}", shape[Axis::tp], shape[Axis::pp], shape[Axis::dp_shard]));
    testing::run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
      Mesh mesh(environment, shape);
      for (const fs::path& folder : parity::folders("numbers")) {
        if (!parity::read_json(folder / "case.json").at("meshes") || !can_cache(folder)) continue;
        SCOPED_TRACE(folder.filename().string());
        Loaded loaded(folder, mesh);
        int64_t spoiled = 0;
        EXPECT_LE(cached_against_whole(loaded, spoiled), 1e-5);
        EXPECT_EQ(spoiled, 0);
      }
    });
  }
}

TEST(Cached, WhatCannotGoOnIsRejected) {
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
