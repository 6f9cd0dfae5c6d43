// The catalogue's plans under mutation: see plan_mutants.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "generator/weave/weave.h"
#include "tests/generator/plan_mutants.h"

namespace modgen {
namespace {

GenerateOptions catalogue(std::vector<std::string> families) {
  GenerateOptions options;
  options.root = MODULAR_SOURCE_DIR;
  options.families = std::move(families);
  return options;
}

class PlanMutations : public testing::TestWithParam<std::string> {};

TEST_P(PlanMutations, AreRejectedAtALocationOrComputeTheSame) {
  const GenerateOptions options = catalogue({GetParam()});
  const FlattenedSpec spec = flatten_specs(options).front();
  const FamilyModel model = read_flattened(options, {spec}).front();
  const std::vector<Mutant> mutants = make_mutants(spec, model);
  FamilyModel itself = model;
  EXPECT_TRUE(weave(itself).empty()) << "the family itself";

  std::vector<FamilyModel> models = mutated(options, spec, model, mutants);
  size_t rejected = 0;
  for (size_t i = 0; i < mutants.size(); ++i) {
    const std::vector<Finding> findings = weave(models[i]);
    const bool is_rejected =
        std::any_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.is_error; });
    rejected += is_rejected;
    if (mutants[i].verdict == Verdict::accepted) {
      EXPECT_FALSE(is_rejected) << spec.family << ": " << mutants[i].name << "\n  " << findings.front().message;
      continue;
    }
    EXPECT_TRUE(is_rejected) << spec.family << ": " << mutants[i].name;
    for (const Finding& finding : findings) EXPECT_FALSE(finding.where.empty()) << finding.message;
  }
  std::cout << spec.family << ": " << mutants.size() << " mutants, " << rejected << " rejected\n";
}

/// One family for each kind of model.
const std::vector<std::string> kSome = {"bert", "clip", "jamba", "llama", "mixtral", "t5"};

std::vector<std::string> get_others() {
  std::vector<std::string> families = families_in(MODULAR_SOURCE_DIR);
  std::erase_if(families, [](const std::string& family) { return std::ranges::count(kSome, family) > 0; });
  return families;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, PlanMutations, testing::ValuesIn(kSome),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Release, PlanMutations, testing::ValuesIn(get_others()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
