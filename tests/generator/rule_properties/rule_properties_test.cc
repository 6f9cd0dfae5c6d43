// Tests that every shard-type rule is sound: operations with sampled operands compute on simulated ranks, forward and
// backward, what the rule claims.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "generator/weave/rules/rules.h"
#include "tests/generator/rule_properties/operations.h"
#include "tests/generator/rule_properties/simulation.h"

namespace modgen::rule_properties {
namespace {

/// A rule table, and the operations to test it with.
struct Kind {
  const char* name;
  const RuleTable& (*rules)();
  const OperationTable& (*operations)();
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

constexpr Kind kKinds[] = {
    {"arithmetic", arithmetic_rules, arithmetic_operations},
    {"shapes", shape_rules, shape_operations},
    {"cutting", cutting_rules, cutting_operations},
    {"matmuls", matmul_rules, matmul_operations},
    {"layers", layer_rules, layer_operations},
    {"functions", function_rules, function_operations},
    {"heads", head_rules, head_operations},
    {"state_space", state_space_rules, state_space_operations},
};

/// Rules that accept only values that are the same on every rank, and why they exist.
const std::map<std::string_view, std::string_view> kOnlyFullValues = {
    {"ones", "constructs a tensor from its sizes, and records which are 1"},
    {"zeros", "as ones"},
    {"full", "as ones"},
    {"empty", "as ones"},
    {"arange", "constructs a tensor with one dimension"},
    {"scalar_tensor", "constructs a tensor from a number"},
    {"rotary_tables", "records that both tables have three dimensions"},
    {"causal_mask", "records that a mask is the same on every rank"},
    {"bidirectional_mask", "as causal_mask"},
    {"whole_mask", "as causal_mask"},
    {"visible_keys", "records that the mask is the same for every head"},
    {"key_mask", "as visible_keys"},
    {"key_distances", "records the number of dimensions"},
    {"position_ids", "records the number of dimensions"},
    {"counted_position_ids", "records the number of dimensions"},
    {"interpolated_positions", "records that there are three dimensions"},
    {"next_tokens", "records the number of dimensions"},
    {"previous_tokens", "records the number of dimensions"},
    {"count_targets", "records the number of dimensions"},
    {"linear layer", "has full parameters without an annotation"},
    {"embedding layer", "has a full table without an annotation"},
    {"Conv2d layer", "has no annotation"},
    {"torch::nn::Dropout layer", "is rejected"},
};

/// Rules that replace the operation by another call if a value is split.
const std::map<std::string_view, Call> kWoven = {
    {"tp_rowwise", Call::exit},
    {"tp_vocab embedding", Call::embedding},
    {"LayerNorm layer", Call::layer_norm},
    {"Dropout layer", Call::dropout},
    {"attention", Call::attention},
    {"attention_with_biases", Call::attention},
    {"rms_norm", Call::rms_norm},
    {"mix_experts", Call::sum},
    {"mix_clamped_experts", Call::sum},
    {"cross_entropy", Call::cross_entropy},
    {"cross_entropy_outputs", Call::cross_entropy_outputs},
    {"sampled_cross_entropy", Call::sampled_cross_entropy},
    {"alibi_slopes", Call::alibi_slopes},
};

/// Number of samples per verdict.
struct Tally {
  int rejected = 0, invalid = 0, full = 0, others = 0;
  std::map<Call, int> woven;  // right samples per inserted call
};

class Rules : public testing::TestWithParam<Kind> {};

int number_of(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value ? std::atoi(value) : otherwise;
}

TEST_P(Rules, HoldOnRanks) {
  for (const auto& [name, rule] : GetParam().rules()) {
    const auto operation = GetParam().operations().find(name);
    if (operation == GetParam().operations().end()) {
      ADD_FAILURE() << "the rule for " << name << " has no operation in tests/generator/rule_properties";
      continue;
    }
    Tally tally;
    int wrong = 0;
    // Take more samples if few of a rule's first samples are accepted.
    const int first = number_of("MODULAR_RULE_FIRST", 0), least = number_of("MODULAR_RULE_DRAWS", 80);
    for (int i = first; i < first + least || (i < first + 10 * least && tally.others < least / 10); ++i) {
      Sampler sampler(std::hash<std::string_view>()(name) + static_cast<uint64_t>(i));
      const Application application = operation->second(sampler);
      const Judgement judgement = judge(std::string(name), application);
      tally.rejected += judgement.verdict == Verdict::rejected;
      tally.invalid += judgement.verdict == Verdict::invalid;
      tally.full += judgement.verdict == Verdict::right && judgement.all_full;
      tally.others += judgement.verdict == Verdict::right && !judgement.all_full;
      if (judgement.verdict == Verdict::right && judgement.call != Call::none) ++tally.woven[judgement.call];
      if (judgement.verdict == Verdict::wrong && ++wrong <= 3)
        ADD_FAILURE() << "sample " << i << " of " << describe(std::string(name), application) << "\n  "
                      << judgement.message;
      if (judgement.verdict == Verdict::invalid && std::getenv("MODULAR_SHOW_INVALID"))
        std::cout << describe(std::string(name), application) << "\n  " << judgement.message << "\n";
    }
    if (wrong > 0) ADD_FAILURE() << name << ": " << wrong << " samples are wrong";
    EXPECT_LE(tally.invalid, least / 2) << name << ": a single process cannot compute most samples";
    EXPECT_EQ(tally.others == 0, kOnlyFullValues.contains(name))
        << name << ": " << tally.others << " samples with values that differ between ranks were accepted";
    const auto woven = kWoven.find(name);
    EXPECT_EQ(tally.woven.size(), woven == kWoven.end() ? 0U : 1U) << name;
    if (woven != kWoven.end()) {
      EXPECT_GE(tally.woven[woven->second], least / 20) << name << ": too few samples of the call that replaces it";
    }
    std::cout << name << ": " << tally.others << " samples are right, " << tally.full << " more with full values, "
              << tally.rejected << " rejected, " << tally.invalid << " invalid\n";
  }
}

TEST_P(Rules, ExistForEveryOperation) {
  for (const auto& [name, sample] : GetParam().operations())
    EXPECT_TRUE(GetParam().rules().contains(name)) << name << " has no rule";
}

TEST(RuleProperties, CoverEveryTable) {
  std::vector<const RuleTable*> sampled;
  for (const Kind& kind : kKinds) sampled.push_back(&kind.rules());
  for (const RuleTable* table : rule_tables())
    EXPECT_EQ(std::ranges::count(sampled, table), 1)
        << "no operations are sampled for the table of " << table->begin()->first;
}

INSTANTIATE_TEST_SUITE_P(Tables, Rules, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace modgen::rule_properties
