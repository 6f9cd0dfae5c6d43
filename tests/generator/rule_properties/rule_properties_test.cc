// Every rule of shard types is true: operations with drawn operands compute on simulated ranks, forward and backward,
// what the rule says of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "generator/weave/rules/rules.h"
#include "tests/generator/rule_properties/operations.h"
#include "tests/generator/rule_properties/simulation.h"

namespace modgen::rule_properties {
namespace {

/// A table of rules and the operations that they are about.
struct Kind {
  const char* name;
  const RuleTable& (*rules)();
  const OperationTable& (*operations)();
};

constexpr Kind kKinds[] = {
    {"arithmetic", arithmetic_rules, arithmetic_operations},
    {"shapes", shape_rules, shape_operations},
    {"cutting", cutting_rules, cutting_operations},
    {"products", matmul_rules, matmul_operations},
    {"layers", layer_rules, layer_operations},
    {"functions", function_rules, function_operations},
    {"heads", head_rules, head_operations},
    {"state_space", state_space_rules, state_space_operations},
};

/// Rules that take what is the same on every rank and nothing else, and why they stand in the tables.
const std::map<std::string_view, std::string_view> kOfFullValues = {
    {"ones", "it makes a tensor by its sizes, and says which are 1"},
    {"zeros", "as ones"},
    {"full", "as ones"},
    {"empty", "as ones"},
    {"arange", "it makes a tensor of one dimension"},
    {"scalar_tensor", "it makes a tensor of a number"},
    {"rotary_tables", "it says that both tables have three dimensions"},
    {"causal_mask", "it says that a mask is the same on every rank"},
    {"bidirectional_mask", "as causal_mask"},
    {"whole_mask", "as causal_mask"},
    {"visible_keys", "it says that the mask is the same for every head"},
    {"position_ids", "it says how many dimensions there are"},
    {"interpolated_positions", "it says that there are three dimensions"},
    {"next_tokens", "it says how many dimensions there are"},
    {"count_targets", "it says how many dimensions there are"},
    {"linear layer", "without an annotation its parameters are whole"},
    {"embedding layer", "without an annotation its table is whole"},
    {"Conv2d layer", "it has no annotation"},
    {"torch::nn::Dropout layer", "it is rejected"},
};

/// Rules that have another call woven in the operation's place, where a value is split.
const std::map<std::string_view, Call> kWoven = {
    {"tp_rowwise", Call::exit},
    {"tp_vocab embedding", Call::embedding},
    {"LayerNorm layer", Call::layer_norm},
    {"Dropout layer", Call::dropout},
    {"attention", Call::attention},
    {"attention_with_biases", Call::attention},
    {"rms_norm", Call::rms_norm},
    {"mix_experts", Call::sum},
    {"cross_entropy", Call::cross_entropy},
    {"sampled_cross_entropy", Call::sampled_cross_entropy},
    {"alibi_slopes", Call::alibi_slopes},
};

/// How often each verdict was given.
struct Tally {
  int rejected = 0, invalid = 0, whole = 0, others = 0;
  std::map<Call, int> woven;  // of what is right
};

void PrintTo(const Kind& one, std::ostream* out) { *out << one.name; }

class RulesOf : public testing::TestWithParam<Kind> {};

int draws_for_each_rule() {
  const char* draws = std::getenv("MODULAR_RULE_DRAWS");
  return draws ? std::atoi(draws) : 200;
}

TEST_P(RulesOf, HoldOnRanks) {
  for (const auto& [name, rule] : GetParam().rules()) {
    const auto operation = GetParam().operations().find(name);
    if (operation == GetParam().operations().end()) {
      ADD_FAILURE() << "the rule for " << name << " has no operation in tests/generator/rule_properties";
      continue;
    }
    Tally tally;
    int wrong = 0;
    // Further draws where few of a rule's first ones are accepted.
    const int least = draws_for_each_rule(), most = 10 * least;
    for (int i = 0; i < least || (i < most && tally.others < least / 10); ++i) {
      Drawing draw(std::hash<std::string_view>()(name) + static_cast<uint64_t>(i));
      const Application application = operation->second(draw);
      const Judgement judgement = judge(std::string(name), application);
      tally.rejected += judgement.verdict == Verdict::rejected;
      tally.invalid += judgement.verdict == Verdict::invalid;
      tally.whole += judgement.verdict == Verdict::right && judgement.all_full;
      tally.others += judgement.verdict == Verdict::right && !judgement.all_full;
      if (judgement.verdict == Verdict::right && judgement.call != Call::none) ++tally.woven[judgement.call];
      if (judgement.verdict == Verdict::wrong && ++wrong <= 3)
        ADD_FAILURE() << "draw " << i << " of " << describe(std::string(name), application) << "\n  "
                      << judgement.message;
      if (judgement.verdict == Verdict::invalid && std::getenv("MODULAR_SHOW_INVALID"))
        std::cout << describe(std::string(name), application) << "\n  " << judgement.message << "\n";
    }
    if (wrong > 0) ADD_FAILURE() << name << ": " << wrong << " draws are wrong";
    EXPECT_LE(tally.invalid, least / 2) << name << ": one process cannot compute most draws";
    EXPECT_EQ(tally.others == 0, kOfFullValues.contains(name))
        << name << ": " << tally.others << " draws with values that are not alike on all ranks were accepted";
    const auto woven = kWoven.find(name);
    EXPECT_EQ(tally.woven.size(), woven == kWoven.end() ? 0U : 1U) << name;
    if (woven != kWoven.end()) {
      EXPECT_GE(tally.woven[woven->second], least / 20) << name << ": too few draws of what is woven in its place";
    }
    std::cout << name << ": " << tally.others << " draws are right, " << tally.whole << " more of full values, "
              << tally.rejected << " rejected, " << tally.invalid << " invalid\n";
  }
}

TEST_P(RulesOf, HaveNoOperationWithoutARule) {
  for (const auto& [name, draw] : GetParam().operations())
    EXPECT_TRUE(GetParam().rules().contains(name)) << name << " has no rule";
}

TEST(RuleProperties, CoverEveryTable) {
  std::vector<const RuleTable*> drawn;
  for (const Kind& kind : kKinds) drawn.push_back(&kind.rules());
  for (const RuleTable* table : rule_tables())
    EXPECT_EQ(std::ranges::count(drawn, table), 1)
        << "no operations are drawn for the table of " << table->begin()->first;
}

INSTANTIATE_TEST_SUITE_P(Tables, RulesOf, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace modgen::rule_properties
