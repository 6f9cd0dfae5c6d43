// Context parallelism of the generated models: each entry that reads text trains as on one process, with dropout,
// clipping and two micro-batches, or says why its sequences cannot be cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "runtime/model/tasks.h"
#include "runtime/parallel/tensor/context_parallel.h"
#include "tests/parallel/family_sizes.h"

namespace modular::testing {
namespace {

using Layout = ContextOptions::Layout;
using Attention = ContextOptions::Attention;

MeshShape mesh(int64_t cp, int64_t tp = 1, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, cp, tp}};
}

/// An entry, and its number among those that are trained, which chooses options in turn.
struct OnMesh {
  std::string architecture;
  MeshShape shape;
  size_t number = 0;
};
void PrintTo(const OnMesh& one, std::ostream* out) { *out << one.architecture << " on " << one.shape.describe(); }

std::string name_for(const ::testing::TestParamInfo<OnMesh>& info) {
  std::string name = info.param.architecture + "_" + info.param.shape.describe();
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

bool reads_text(const Entry& entry) {
  const Task* task = find_task(entry.task);
  return task && task->reads != Task::Reads::images;
}

bool is_cut(const Entry& entry) { return reads_text(entry) && entry.plan->context_error.empty(); }

/// The first entry of each family, if possible one with a target per token, or the others; on two ranks.
std::vector<OnMesh> find_entries(bool first) {
  std::vector<const Entry*> cut;
  for (const Entry& entry : entries())
    if (is_cut(entry)) cut.push_back(&entry);
  std::ranges::stable_partition(
      cut, [](const Entry* entry) { return find_task(entry->task)->labels != Task::Labels::each_row; });
  std::vector<OnMesh> found;
  std::set<std::string_view> families;
  for (const Entry* entry : cut)
    if (families.insert(entry->family).second == first)
      found.push_back({std::string(entry->architecture), mesh(2), found.size()});
  return found;
}

/// Each family on one of these meshes, in turn, or with MODULAR_LONG_TESTS=1 on all of them.
std::vector<OnMesh> on_further_meshes() {
  const std::array meshes = {mesh(4), mesh(2, 1, 2), mesh(2, 1, 1, 2), mesh(2, 2), mesh(2, 1, 1, 1, 2)};
  const bool runs_all = std::getenv("MODULAR_LONG_TESTS") != nullptr;
  std::vector<OnMesh> all;
  for (const OnMesh& entry : find_entries(/*first=*/true))
    for (size_t i = 0; i < meshes.size(); ++i)
      if (runs_all || i == entry.number % meshes.size()) all.push_back({entry.architecture, meshes[i], entry.number});
  return all;
}

Variant variant(const char* name, const Entry& entry, const ContextOptions& context = {}) {
  Variant made{.name = name, .fields = fields_of(entry.family), .micro_batches = 2, .steps = 3};
  made.options.context = context;
  // Classifiers of sequences read the last token that is not padding.
  if (entry.task == "sequence-classification") made.fields["pad_token_id"] = int64_t{0};
  made.compares_rows = find_task(entry.task)->texts == kAnyTexts;
  return made;
}

/// Layouts, exchanges and sides of padding in turn.
ContextOptions in_turn(size_t number) {
  return {number % 2 == 0 ? Layout::zigzag : Layout::contiguous,
          number / 2 % 2 == 0 ? Attention::all_to_all : Attention::all_gather};
}

class ContextOfFamilies : public ::testing::TestWithParam<OnMesh> {};

TEST_P(ContextOfFamilies, TrainsTheSame) {
  const auto& [architecture, shape, number] = GetParam();
  const Entry& entry = get_entry(architecture);
  ASSERT_EQ(ParallelModel::error(entry, *tiny_config(entry, fields_of(entry.family)), shape), "");
  Variant automatic = variant("automatic", entry), documents = variant("documents", entry, in_turn(number));
  documents.documents = true;
  documents.left_padding = number % 3 == 0;
  expect_same_training(architecture, shape, {automatic, documents});
}

INSTANTIATE_TEST_SUITE_P(Release, ContextOfFamilies, ::testing::ValuesIn(find_entries(/*first=*/true)), name_for);

class ContextOfOtherTasks : public ::testing::TestWithParam<OnMesh> {};

TEST_P(ContextOfOtherTasks, TrainsTheSame) {
  const auto& [architecture, shape, number] = GetParam();
  const Entry& entry = get_entry(architecture);
  Variant made = variant("in turn", entry, in_turn(number));
  made.left_padding = number % 3 == 0;
  expect_same_training(architecture, shape, {made});
}

INSTANTIATE_TEST_SUITE_P(Release, ContextOfOtherTasks, ::testing::ValuesIn(find_entries(/*first=*/false)), name_for);

class ContextOnMeshes : public ::testing::TestWithParam<OnMesh> {};

TEST_P(ContextOnMeshes, TrainsTheSame) {
  const auto& [architecture, shape, number] = GetParam();
  const Entry& entry = get_entry(architecture);
  if (const std::string error = ParallelModel::error(entry, *tiny_config(entry, fields_of(entry.family)), shape);
      !error.empty())
    GTEST_SKIP() << error;
  Variant made = variant("in turn", entry, in_turn(number / 5 + 1));
  made.left_padding = number % 2 == 0;
  made.options.recompute = shape[Axis::dp_shard] > 1;
  if (shape[Axis::cp] > 2) made.sequence = 24;
  std::vector<Variant> variants = {made};
  if (shape[Axis::tp] > 1 && !entry.plan->sequence.empty()) {
    made.name = "without sequence parallelism";
    made.options.sequence = false;
    variants.push_back(made);
  }
  expect_same_training(architecture, shape, variants);
}

INSTANTIATE_TEST_SUITE_P(Release, ContextOnMeshes, ::testing::ValuesIn(on_further_meshes()), name_for);

TEST(ContextFamilies, CoversAtLeastThirtyFamilies) { EXPECT_GE(find_entries(/*first=*/true).size(), 30); }

TEST(ContextFamilies, WhatCannotBeCutIsAnErrorWithItsReason) {
  for (const Entry& entry : entries())
    if (!is_cut(entry))
      EXPECT_EQ(ParallelModel::error(entry, *tiny_config(entry, fields_of(entry.family)), mesh(2)),
                context_error(entry, 2))
          << entry.architecture;
}

}  // namespace
}  // namespace modular::testing
