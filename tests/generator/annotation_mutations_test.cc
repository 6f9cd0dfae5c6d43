// Every annotation of some specs, removed, replaced by another of its kind, and moved to the next member. Mutants that
// would compute something else on some mesh are rejected at a location in the spec; the few harmless ones are listed.
#include <regex>
#include <set>

#include "tests/generator/weave_support.h"

namespace modgen {
namespace {

/// Mutants that compute the same on every mesh.
const std::set<std::string> kHarmless = {
    // A table or a projection that is replicated on every rank.
    "tiny: TP_VOCAB of embed removed",
    "tiny: TP_VOCAB of embed moved to the next member",
    "tiny: TP_VOCAB of lm_head removed",
    // For a linear layer, both split by output feature.
    "tiny: TP_VOCAB of lm_head replaced by TP_COLWISE",
    "tiny: TP_COLWISE of up_proj replaced by TP_VOCAB",
    "tiny: TP_COLWISE of q_proj replaced by TP_VOCAB",
    "tiny: TP_COLWISE of k_proj replaced by TP_VOCAB",
    "tiny: TP_COLWISE of v_proj replaced by TP_VOCAB",
    "two_towers: TP_VOCAB of lm_head{nullptr} replaced by TP_COLWISE",
    // The annotation is inherited anyway.
    "local_global: PP_SPLIT of layers removed",
    "two_towers: PP_LAST of lm_head{nullptr} removed",
    "two_towers: TP_VOCAB of lm_head{nullptr} removed",
};

struct Mutant {
  std::string name;  // "tiny: TP_COLWISE of up_proj removed"
  std::string spec;
};

/// An annotation before a member.
struct Site {
  std::string macro;   // with its arguments
  std::string member;  // the marked member
  size_t begin = 0, end = 0;
};

std::string get_kind(const std::string& macro) { return macro.substr(0, macro.find('(')); }

std::vector<Site> find_sites(const std::string& spec) {
  static const std::regex annotation(
      R"((TP_COLWISE_PARTS|TP_SHARD)\([^)]*\)|TP_COLWISE|TP_ROWWISE|TP_VOCAB|TP_LOCAL|PP_FIRST|PP_SPLIT|PP_LAST|PP_ALL)");
  std::vector<Site> sites;
  for (auto found = std::sregex_iterator(spec.begin(), spec.end(), annotation); found != std::sregex_iterator();
       ++found) {
    Site site;
    site.macro = found->str();
    site.begin = static_cast<size_t>(found->position());
    site.end = site.begin + site.macro.size();
    const size_t semicolon = spec.find(';', site.end), space = spec.find_last_of(" \n", semicolon);
    site.member = spec.substr(space + 1, semicolon - space - 1);
    sites.push_back(site);
  }
  return sites;
}

std::vector<std::string> get_others(const std::string& kind) {
  std::vector<std::string> group = {"TP_COLWISE", "TP_ROWWISE", "TP_VOCAB"};
  if (kind.starts_with("PP_")) group = {"PP_FIRST", "PP_SPLIT", "PP_LAST"};
  if (kind == "TP_LOCAL") group.clear();
  std::erase(group, kind);
  return group;
}

std::vector<Mutant> make_mutants(const std::string& family, const std::string& spec) {
  std::vector<Mutant> mutants;
  const auto sites = find_sites(spec);
  for (const Site& site : sites) {
    const std::string what = family + ": " + get_kind(site.macro) + " of " + site.member;
    const std::string without = std::string(spec).erase(site.begin, site.end - site.begin);
    mutants.push_back({what + " removed", without});
    for (const std::string& other : get_others(get_kind(site.macro)))
      mutants.push_back({what + " replaced by " + other, std::string(without).insert(site.begin, other)});
    // Before the next declaration, if it is a member.
    const size_t next_line = without.find('\n', without.find(';', site.begin)) + 1;
    const size_t next = without.find_first_not_of(' ', next_line);
    const size_t line_end = without.find('\n', next);
    const std::string line = without.substr(next, line_end - next);
    if (line.ends_with(";") && line.find('(') == std::string::npos)
      mutants.push_back({what + " moved to the next member", std::string(without).insert(next, site.macro + " ")});
  }
  return mutants;
}

class AnnotationMutations : public testing::TestWithParam<const char*> {};

TEST_P(AnnotationMutations, AreRejectedAtALocationInTheSpec) {
  const std::string family = GetParam();
  const auto mutants = make_mutants(family, parallel_spec(family));
  ASSERT_GE(mutants.size(), 1u);
  for (const Mutant& mutant : mutants) {
    const GenerateResult result = generate_parallel(family, mutant.spec);
    if (kHarmless.contains(mutant.name)) {
      EXPECT_TRUE(result.ok()) << mutant.name << "\n" << all_text(result.diagnostics);
      continue;
    }
    EXPECT_FALSE(result.ok()) << mutant.name;
    for (const Diagnostic& diagnostic : result.diagnostics) {
      EXPECT_TRUE(diagnostic.where.path.starts_with("modular/")) << mutant.name << ": " << to_text(diagnostic);
      EXPECT_GT(diagnostic.where.line, 0u) << mutant.name << ": " << to_text(diagnostic);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, AnnotationMutations,
                         testing::Values("tiny", "fused_parts", "transposed", "local_global", "two_towers"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace modgen
