// Recomputation, offloading and the choice of units train bitwise like a run without them.
#include <gtest/gtest.h>

#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

const Fields kDropping = {
    {"attention_dropout", 0.2}, {"hidden_dropout_prob", 0.1}, {"attention_probs_dropout_prob", 0.2}};

Recomputation every(int64_t n) {
  Recomputation recompute;
  recompute.every = n;
  return recompute;
}

Recomputation operations() {
  Recomputation recompute;
  recompute.operations = recomputed_operations();
  return recompute;
}

Offload offload(const std::vector<std::string>& names) {
  Offload offload = to_offload(names);
  offload.least_bytes = 256;
  return offload;
}

const std::vector<std::pair<std::string, ParallelOptions>> kOptions = {
    {"plain", {}},
    {"plain, ZeRO-1", {.zero_stage = 1}},  // sums in a different order
    {"full", {.recompute = true}},
    {"every second", {.recompute = every(2)}},
    {"operations", {.recompute = operations()}},
    {"no units", {.units = {}}},
    {"no units, operations", {.recompute = operations(), .units = {}}},
    {"optimizer on the host", {.offload = offload({"optimizer"})}},
    {"parameters on the host", {.offload = offload({"parameters"})}},
    {"parameters on the host, ZeRO-1", {.zero_stage = 1, .offload = offload({"parameters"})}},
    {"activations on the host", {.offload = offload({"activations"})}},
    {"all on the host, operations", {.recompute = operations(), .offload = offload(offload_names())}},
    {"all on the host, every third", {.recompute = every(3), .offload = offload(offload_names())}},
};

struct Case {
  std::string name, architecture;
  MeshShape shape;
  int64_t micro_batches;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class SameBits : public ::testing::TestWithParam<Case> {};

TEST_P(SameBits, AsWithoutTheOption) {
  const auto& [name, architecture, shape, micro_batches] = GetParam();
  const auto train_all = [&, &architecture = architecture, &shape = shape,
                          count = micro_batches](const Environment& environment) {
    Mesh mesh(environment, shape, {.device = at::kCPU});
    Report all;
    for (const auto& [option, options] : kOptions) {
      const Report report = train(mesh, get_entry(architecture),
                                  {.name = option, .fields = kDropping, .options = options, .micro_batches = count});
      all.insert(all.end(), report.begin(), report.end());
    }
    return all;
  };
  const auto reports =
      shape.ranks() == 1 ? std::vector<Report>{train_all({})} : run_ranks(static_cast<int>(shape.ranks()), train_all);
  for (const Report& report : reports) {
    const size_t size = report.size() / kOptions.size();
    for (size_t option = 2; option < kOptions.size(); ++option) {
      const size_t plain = kOptions[option].second.zero_stage == 1 ? 1 : 0;
      for (size_t i = 0; i < size; ++i)
        ASSERT_EQ(report[option * size + i], report[plain * size + i]) << kOptions[option].first << ", number " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, SameBits,
                         ::testing::Values(Case{"LlamaSharded3", "LlamaForCausalLM", {.size = {1, 1, 3, 1, 1}}, 2},
                                           Case{"LlamaPipeline2", "LlamaForCausalLM", {.size = {2, 1, 1, 1, 1}}, 4}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Release, SameBits,
                         ::testing::Values(Case{"LlamaAlone", "LlamaForCausalLM", {}, 2},
                                           Case{"LlamaTensor2", "LlamaForCausalLM", {.size = {1, 1, 1, 1, 2}}, 1},
                                           Case{"BertAlone", "BertForMaskedLM", {}, 1},
                                           Case{"BertSharded3", "BertForMaskedLM", {.size = {1, 1, 3, 1, 1}}, 1},
                                           Case{"BertTensor2", "BertForMaskedLM", {.size = {1, 1, 1, 1, 2}}, 1},
                                           Case{"Gemma2Alone", "Gemma2ForCausalLM", {}, 1},
                                           Case{"Gemma2Tensor2", "Gemma2ForCausalLM", {.size = {1, 1, 1, 1, 2}}, 1}),
                         [](const auto& info) { return info.param.name; });

TEST(MemoryOptions, RejectUnknownNames) {
  const Entry& entry = get_entry("LlamaForCausalLM");
  const auto config = tiny_config(entry);
  using Found = std::pair<std::string, std::string>;
  const auto error = [&](const std::vector<std::string>& units, const Recomputation& recompute,
                         const Offload& offload = {}) {
    return memory_error(entry, *config, units, recompute, offload);
  };
  EXPECT_EQ(error({"*"}, true), Found());
  EXPECT_EQ(error({"LlamaDecoderLayer"}, true), Found());
  EXPECT_EQ(error({"LlamaMLP"}, {}),
            Found("parallel.units",
                  "parallel.units: LlamaForCausalLM has no unit class \"LlamaMLP\"; its unit classes are "
                  "LlamaDecoderLayer, and [\"*\"] is all of them"));
  EXPECT_EQ(error({}, operations()), Found());
  EXPECT_EQ(error({}, true).first, "parallel.recompute");
  EXPECT_EQ(error({}, {}, to_offload({"activations"})).first, "parallel.offload");
  Recomputation wrong;
  wrong.operations = {"norm", "atention"};
  EXPECT_EQ(error({"*"}, wrong), Found("parallel.recompute",
                                       "parallel.recompute has no operation \"atention\": it must be \"none\" or "
                                       "\"full\", an integer without quotes, or an "
                                       "array of some of attention, norm, activation"));
}

TEST(MemoryOptions, EveryNthCountsListElements) {
  EXPECT_TRUE(every(1).includes_unit("model.layers.3"));
  EXPECT_FALSE(every(2).includes_unit("model.layers.3"));
  EXPECT_TRUE(every(3).includes_unit("model.layers.3"));
  EXPECT_TRUE(every(4).includes_unit("encoder.2.layers.12"));
  EXPECT_FALSE(every(5).includes_unit("encoder.10.layers.12"));
  EXPECT_TRUE(every(5).includes_unit("pooler"));
  EXPECT_FALSE(Recomputation().includes_unit("model.layers.0"));
}

}  // namespace
}  // namespace modular::testing
