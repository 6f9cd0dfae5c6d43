// Changes that weaving may make to a flattened text. All others are found.

#include <gtest/gtest.h>

#include "generator/generate.h"
#include "generator/print/print.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

bool is_found(const FamilyModel& family, const std::string& woven) {
  std::vector<Finding> findings;
  check_woven(family, woven, findings);
  return !findings.empty();
}

struct Case {
  const char* flattened;
  const char* woven;
  bool is_right;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.flattened << "  =>  " << one.woven; }

class Weaving : public testing::TestWithParam<Case> {};

TEST_P(Weaving, MayOnlyInsertItsCalls) {
  FamilyModel family;
  family.text = "Tensor f() { " + std::string(GetParam().flattened) + " }";
  EXPECT_EQ(is_found(family, "Tensor f() { " + std::string(GetParam().woven) + " }"), !GetParam().is_right);
}

const Case kCases[] = {
    {"return a;", "return a;", true},
    {"return a;", "return b;", false},
    {"return a;", "return tp::gather(a);", true},
    {"return a;", "return tp::other(a);", false},
    {"return tp::gather(a);", "return tp::gather(a);", true},
    {"return tp::gather(a);", "return a;", false},
    // An operator next to the call must not bind differently.
    {"return a + b * c;", "return a + tp::gather(b) * c;", true},
    {"return a + b * c;", "return tp::gather(a + b) * c;", false},
    {"return a + b + c;", "return tp::exit(a + b) + c;", true},
    {"return a - b - c;", "return a - tp::exit(b - c);", false},
    {"return x + a * b;", "return x + tp::exit(a * b);", true},
    {"return x * 0.5 + a * 0.1;", "return x * 0.5 + tp::exit(a * 0.1);", true},
    {"return a * b / c;", "return tp::whole_size(a * b) / c;", true},
    {"return x + a * b / c;", "return x + tp::whole_size(a * b) / c;", true},
    {"return a * b / c;", "return a * tp::whole_size(b / c);", false},
    {"return -a * b + c;", "return tp::exit(-a * b) + c;", true},
    {"return -a + b;", "return -tp::exit(a + b);", false},
    {"return c ? a : b;", "return tp::gather(c ? a : b);", true},
    {"return a.b;", "return tp::gather(a.b);", true},
    {"return a.b;", "return tp::gather(a).b;", true},
    {"return a.b;", "return tp::gather(a.)b;", false},
    {"return a.b;", "return a.tp::gather(b);", false},
    {"return f(a), b;", "return f(tp::gather(a), b);", false},
    // Layers.
    {"return down(x);", "return tp::exit(down, x);", true},
    {"return down->forward(x);", "return tp::exit(down, x);", true},
    {"return (*down)(x);", "return tp::exit(down, x);", true},
    {"return down(x);", "return tp::exit(up, x);", false},
    {"return down(x);", "return tp::exit(down, y);", false},
    {"return norm(x);", "return norm->forward_on_shards(x);", true},
    {"return norm(x);", "return norm->other_on_shards(x);", false},
    {"return norm->scaled(x);", "return norm->scaled_on_shards(x);", true},
    {"return ops::rms_norm(x, w);", "return tp::rms_norm(x, w);", true},
    {"return ops::layer_norm(x, w);", "return tp::rms_norm(x, w);", false},
    // A variable for the input of split layers.
    {"return up(x) * gate(x);", "auto x_tp = tp::enter(x); return up(x_tp) * gate(x_tp);", true},
    {"return up(x) * gate(x);", "auto x_tp = tp::enter(y); return up(x_tp) * gate(x_tp);", false},
    {"return up(x) * gate(x);", "return up(x_tp) * gate(x_tp);", false},
    // Stages.
    {"return a;", "if (!pp::is_last()) return x; return a;", true},
    {"return a;", "if (!pp::is_last()) return pp::pass_on(x); return a;", true},
    {"return a;", "if (!pp::is_first()) return x; return a;", false},
    {"Tensor x; x = embed(i); return x;",
     "Tensor x; if (pp::is_first()) { x = embed(i); } else { x = pp::received(); } return x;", true},
    {"Tensor x; x = embed(i); return x;",
     "Tensor x; if (pp::is_first()) { y = embed(i); } else { x = pp::received(); } return x;", false},
    {"return a;", "if (!pp::second_stack(x)) return pp::pass_on(x); return a;", true},
    {"return a;", "if (!pp::second_stack(x)) return pp::pass_on(y); return a;", false},
    {"return a;", "if (!pp::second_stack(x)) return x; return a;", true},
    {"Tensor x = embed(i); return x;", "Tensor x = pp::first_stack() ? embed(i) : pp::received(); return x;", true},
    {"Tensor x = embed(i); return x;",
     "Tensor x; if (pp::first_stack()) { x = embed(i); } else { x = pp::received(); } return x;", true},
    {"Tensor x = embed(i); return x;", "Tensor x = pp::second_stack() ? embed(i) : pp::received(); return x;", false},
    {"Tensor x = embed(i); return x;", "Tensor x = pp::is_first() ? embed(i) : pp::received(); return x;", true},
    {"x = embed(i); y += x; return x;",
     "if (pp::is_first()) { x = embed(i); y += x; } else { x = pp::received(); } return x;", true},
    {"Tensor x(embed(i)); return x;",
     "Tensor x; if (pp::is_first()) { x = embed(i); } else { x = pp::received(); } return x;", true},
    {"Tensor x = embed(i); return x;",
     "Tensor x; if (pp::is_first()) { x = embed(i); } else { y = pp::received(); } return x;", false},
    {"for (auto& layer : *layers) x = layer(x);", "for (auto& layer : pp::local(layers)) x = layer(x);", true},
    // Parts of the positions.
    {"return f(a);", "return f(tp::part(a, 1));", true},
    {"return f(a);", "return f(tp::part(a, b));", false},
    {"return f(a, 1);", "return f(tp::part(a, 1));", false},
    {"return f(a.size(1));", "return f(tp::whole_size(a.size(1)));", true},
    {"return drop(x);", "return tp::dropout(drop, x, tp::Cut::positions);", true},
    {"return drop(x);", "return tp::dropout(drop, x, tp::Cut::other);", false},
    {"return f(x);", "x = tp::whole(x); return f(x);", true},
    {"return f(x);", "x = tp::whole(y); return f(x);", false},
    {"return up(x) * gate(x);", "auto x_tp = tp::shared(x); return up(x_tp) * gate(x_tp);", true},
    {"return up(x) * gate(x);", "auto x_tp = tp::enter(x, 1); return up(x_tp) * gate(x_tp);", true},
    {"x = embed(i); y += x; return x;",
     "if (pp::is_first()) { x = embed(i); y += x; x = tp::part(x); } else { x = pp::received(); } return x;", true},
    {"x = embed(i); y += x; return x;",
     "if (pp::is_first()) { x = embed(i); y += x; y = tp::part(y); } else { x = pp::received(); } return x;", false},
};

INSTANTIATE_TEST_SUITE_P(Forms, Weaving, testing::ValuesIn(kCases));

class WovenFamily : public testing::TestWithParam<const char*> {};

/// Tokens of the woven text are dropped, repeated, swapped and renamed, one after the other.
TEST_P(WovenFamily, RejectsEveryChangedToken) {
  GenerateOptions options;
  options.root = MODULAR_SOURCE_DIR;
  options.families = {GetParam()};
  options.keep_models = true;
  const GenerateResult result = generate(options);
  ASSERT_TRUE(result.ok());
  const FamilyModel& family = *result.outputs.front().model;
  const std::string woven = woven_text(family);
  EXPECT_FALSE(is_found(family, woven));
  const Tokens tokens(woven);
  size_t tried = 0;
  for (size_t at = 1; at + 1 < tokens.size(); at += 11) {
    const size_t line = woven.rfind('\n', tokens.begin(at)) + 1;
    const std::string_view around = std::string_view(woven).substr(line, woven.find('\n', tokens.begin(at)) - line);
    // Tied parameters, and the values that a stage passes on, follow from annotations and types, not from the text.
    if (around.find("tie_parameter(") != around.npos || around.find("pp::is_last()") != around.npos) continue;
    const std::string word(tokens.word(at)), next(tokens.word(at + 1));
    const std::string kinds[] = {"", word + " " + word, next + " " + word,
                                 tokens.is_name(at) ? word + "x" : "~" + word};
    const size_t kind = at / 11 % 4;
    if (kind == 2 && word == next) continue;
    const uint32_t end = tokens.end(kind == 2 ? at + 1 : at);
    const std::string mutant = woven.substr(0, tokens.begin(at)) + kinds[kind] + " " + woven.substr(end);
    EXPECT_TRUE(is_found(family, mutant)) << "at " << around << "\n" << word << " became " << kinds[kind];
    ++tried;
  }
  EXPECT_GT(tried, 150u);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, WovenFamily, testing::Values("llama", "phi", "qwen3", "t5", "gpt2", "clip"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Formatting, KeepsTokens) {
  EXPECT_TRUE(same_tokens("f(a, \"one two\");  // said", "f(a,\n  \"one \"\n  \"two\");"));
  EXPECT_FALSE(same_tokens("f(a, \"one two\");", "f(a, \"one  two\");"));
  EXPECT_FALSE(same_tokens("f(a);", "f(a);;"));
}

}  // namespace
}  // namespace modgen
