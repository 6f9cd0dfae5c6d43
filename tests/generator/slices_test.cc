// Gap ownership: slices concatenate to the text, and comments stay with their code.
#include "generator/source/slices.h"

#include <gtest/gtest.h>

namespace modgen {
namespace {

const std::string kText =
    "{  // of the brace\n"
    "  // above a\n"
    "  int a;  // after a\n"
    "\n"
    "  /* above b */ int b; int c; /* after c */\n"
    "  // before the end\n"
    "}";

SourceSpan core(const std::string& code) {
  const auto begin = static_cast<uint32_t>(kText.find(code));
  return {1, begin, begin + static_cast<uint32_t>(code.size())};
}

std::string text(SourceSpan span) { return kText.substr(span.begin, span.end - span.begin); }

TEST(OwnGaps, GivesEveryByteToOneDeclaration) {
  const SourceSpan region{1, 1, static_cast<uint32_t>(kText.size()) - 1};
  const auto slices = own_gaps(kText, region, {core("int a"), core("int b"), core("int c")});
  std::string all;
  for (const SourceSpan& slice : slices) all += text(slice);
  EXPECT_EQ(all, text(region));
}

TEST(OwnGaps, GivesTheRestOfALineToTheDeclarationBeforeIt) {
  const uint32_t begin = after_line_comment(kText, 1);
  const auto slices = own_gaps(kText, {1, begin, static_cast<uint32_t>(kText.size()) - 1},
                               {core("int a"), core("int b"), core("int c")});
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(text(slices[0]), "\n  // above a\n  int a;  // after a");
  EXPECT_EQ(text(slices[1]), "\n\n  /* above b */ int b;");
  EXPECT_EQ(text(slices[2]), " int c; /* after c */");
  EXPECT_EQ(text(slices[3]), "\n  // before the end\n");
}

TEST(RawTokens, KeepComments) {
  const std::string code = "f(\"llama\"); // a";
  const auto tokens = raw_tokens(code, 0, static_cast<uint32_t>(code.size()));
  ASSERT_EQ(tokens.size(), 6u);
  EXPECT_EQ(tokens[2].kind, RawToken::Kind::string);
  EXPECT_EQ(tokens[5].kind, RawToken::Kind::comment);
  EXPECT_EQ(code.substr(tokens[5].begin), "// a");
}

}  // namespace
}  // namespace modgen
