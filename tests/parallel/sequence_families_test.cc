// Sequence parallelism of the generated models: each family trains as on one process, with dropout, clipping and two
// micro-batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "runtime/model/tasks.h"
#include "runtime/ops/fused.h"
#include "runtime/parallel/parameters/lora.h"
#include "tests/parallel/family_sizes.h"

namespace modular::testing {
namespace {

// All processes of these tests train with this project's kernels.
[[maybe_unused]] const bool has_kernels = (install_fused_functions(), true);

/// The first entry of each family that is trained on a target per token and whose layers can run on parts of the
/// positions.
std::vector<std::string> find_entries() {
  std::vector<std::string> found;
  std::set<std::string_view> families;
  for (const Entry& entry : entries()) {
    const Task* task = find_task(entry.task);
    const bool is_by_token = task && task->reads == Task::Reads::tokens && task->labels != Task::Labels::each_row;
    if (is_by_token && !entry.plan->sequence.empty() && families.insert(entry.family).second)
      found.emplace_back(entry.architecture);
  }
  return found;
}

struct OnMesh {
  std::string architecture;
  MeshShape shape;
};
void PrintTo(const OnMesh& one, std::ostream* out) { *out << one.architecture << " on " << one.shape.describe(); }

MeshShape mesh(int64_t tp, int64_t dp_replicate = 1, int64_t dp_shard = 1, int64_t pp = 1) {
  return {.size = {pp, dp_replicate, dp_shard, 1, tp}};
}

/// By default some families on two ranks; before a release each family on one of the other meshes, in turn, or with
/// MODULAR_LONG_TESTS=1 on all of them.
enum class Extent { some, further };

std::vector<OnMesh> cases(Extent extent) {
  static const std::set<std::string> by_default = {"BertForMaskedLM",   "DeepseekV3ForCausalLM",
                                                   "Mamba2ForCausalLM", "MixtralForCausalLM",
                                                   "Qwen3ForCausalLM",  "T5ForConditionalGeneration"};
  const std::array meshes = {mesh(4), mesh(2, 2), mesh(2, 1, 2), mesh(2, 1, 1, 2)};
  const bool runs_all = std::getenv("MODULAR_LONG_TESTS") != nullptr;
  std::vector<OnMesh> all;
  size_t number = 0;
  for (const std::string& architecture : find_entries()) {
    if (extent == Extent::some && by_default.contains(architecture)) all.push_back({architecture, mesh(2)});
    for (size_t i = 0; extent == Extent::further && i < meshes.size(); ++i)
      if (runs_all || i == number % meshes.size()) all.push_back({architecture, meshes[i]});
    ++number;
  }
  return all;
}

class SequenceOfFamilies : public ::testing::TestWithParam<OnMesh> {};

TEST_P(SequenceOfFamilies, TrainsTheSame) {
  const auto& [architecture, shape] = GetParam();
  const Entry& entry = get_entry(architecture);
  const Fields fields = fields_of(entry.family);
  if (const std::string error = ParallelModel::error(entry, *tiny_config(entry, fields), shape); !error.empty())
    GTEST_SKIP() << error;
  const bool is_sharded = shape[Axis::dp_shard] > 1;
  expect_same_training(architecture, shape,
                       {{.name = is_sharded ? "recomputation" : "micro-batches",
                         .fields = fields,
                         .options = {.recompute = is_sharded},
                         .micro_batches = 2}});
}

std::string name_for(const ::testing::TestParamInfo<OnMesh>& info) {
  std::string name = info.param.architecture + "_" + info.param.shape.describe();
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(OnTwoRanks, SequenceOfFamilies, ::testing::ValuesIn(cases(Extent::some)), name_for);
INSTANTIATE_TEST_SUITE_P(Release, SequenceOfFamilies, ::testing::ValuesIn(cases(Extent::further)), name_for);

TEST(SequenceFamilies, CoversAtLeastTwentyFamilies) { EXPECT_GE(find_entries().size(), 20); }

class AdaptersOfFamilies : public ::testing::TestWithParam<std::string> {};

TEST_P(AdaptersOfFamilies, TrainTheSame) {
  const Entry& base = get_entry(GetParam());
  const Fields fields = fields_of(base.family);
  const auto adapted =
      with_lora(base, *tiny_config(base, fields), {.layers = {"all-linear"}, .rank = 4, .dropout = 0.1});
  static std::set<std::string> names;
  const std::string& name = *names.insert("Adapted" + GetParam()).first;
  Entry named = adapted->entry;
  named.architecture = name;
  entries().push_back(named);
  expect_same_training(
      name, mesh(2),
      {{.name = "adapters", .fields = fields, .options = {.trained = std::vector<std::string>()}, .micro_batches = 2}});
  entries().pop_back();
}

INSTANTIATE_TEST_SUITE_P(Release, AdaptersOfFamilies, ::testing::ValuesIn(find_entries()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modular::testing
