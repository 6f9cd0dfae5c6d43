// Several documents per row: attention keeps them separate on every mesh and in recomputed units.
#include <gtest/gtest.h>

#include "runtime/ops/fused.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

// ModernBERT options that fit tiny sizes.
const Fields kFields = {{"hidden_size", int64_t{32}}, {"pad_token_id", int64_t{0}}, {"local_attention", int64_t{6}}};

class Documents : public ::testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  void SetUp() override {
    if (std::get<bool>(GetParam())) install_fused_functions();
  }
  void TearDown() override { fused = before_; }
  const std::string& architecture() const { return std::get<std::string>(GetParam()); }

 private:
  FusedFunctions before_ = fused;
};

TEST_P(Documents, InOneRowMatchSeparateRows) {
  const Entry& entry = get_entry(architecture());
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelModel model(entry, *tiny_config(entry, kFields), alone, {}, /*seed=*/11);
  const std::vector<int64_t> lengths = {5, 1, 7};
  Batch row;
  std::vector<at::Tensor> ids, positions, documents, expected;
  for (const int64_t length : lengths) {
    Batch document;
    document.input_ids = at::randint(0, 62, {2, length}, at::kLong);
    expected.push_back(model.logits(document));
    ids.push_back(document.input_ids);
    positions.push_back(at::arange(length).expand({2, length}));
    documents.push_back(at::full({2, length}, static_cast<int64_t>(documents.size()), at::kLong));
  }
  row.input_ids = at::cat(ids, 1);
  row.position_ids = at::cat(positions, 1);
  row.documents = at::cat(documents, 1);
  EXPECT_TRUE(at::allclose(model.logits(row), at::cat(expected, 1), 1e-5, 1e-5));
  row.documents = at::Tensor();
  EXPECT_FALSE(at::allclose(model.logits(row), at::cat(expected, 1), 1e-2, 1e-2));
}

TEST_P(Documents, TrainTheSameSharded) {
  expect_same_training(architecture(), {.size = {1, 1, 2, 1, 1}},
                       {{.name = "micro-batches", .fields = kFields, .micro_batches = 2, .documents = true},
                        {.name = "recomputation",
                         .fields = kFields,
                         .options = {.recompute = true},
                         .micro_batches = 2,
                         .documents = true}});
}

TEST_P(Documents, TrainTheSameInATensorParallelPipeline) {
  expect_same_training(architecture(), {.size = {2, 1, 1, 1, 2}},
                       {{.name = "micro-batches", .fields = kFields, .micro_batches = 2, .documents = true}});
}

std::string name_for(const ::testing::TestParamInfo<std::tuple<std::string, bool>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) ? "Fused" : "Plain");
}

INSTANTIATE_TEST_SUITE_P(Families, Documents,
                         ::testing::Combine(::testing::Values("MistralForCausalLM", "ModernBertForMaskedLM"),
                                            ::testing::Bool()),
                         name_for);
INSTANTIATE_TEST_SUITE_P(Release, Documents,
                         ::testing::Combine(::testing::Values("LlamaForCausalLM", "BertForMaskedLM"),
                                            ::testing::Bool()),
                         name_for);

}  // namespace
}  // namespace modular::testing
