// Tests of Count: what is known of a number after C++'s arithmetic, and which results are shares.
#include "generator/weave/count.h"

#include <gtest/gtest.h>

namespace modgen {
namespace {

Count share(Count count) {
  count.is_share = true;
  return count;
}

const Count kHeads = field_count("num_heads"), kWidth = field_count("head_dim");

TEST(Counts, ProductsCompareByTheirFactors) {
  EXPECT_EQ(product_of(kHeads, kWidth), product_of(kWidth, kHeads));
  EXPECT_EQ(product_of(product_of(literal_count(2), kHeads), literal_count(3)), product_of(kHeads, literal_count(6)));
  EXPECT_NE(product_of(kHeads, literal_count(2)), kHeads);
}

TEST(Counts, TextsOfProducts) {
  const Count count = product_of(product_of(kHeads, literal_count(2)), kWidth);
  EXPECT_EQ(to_text(*count.product()), "2 * head_dim * num_heads");
  EXPECT_EQ(written_text(*count.product()), "num_heads * head_dim * 2");
}

TEST(Counts, SharesOfProductsSumsAndQuotients) {
  EXPECT_EQ(product_of(share(kHeads), kWidth), share(product_of(kHeads, kWidth)));
  EXPECT_EQ(sum_of(share(kHeads), share(kWidth)).terms.size(), 2U);
  EXPECT_TRUE(sum_of(share(kHeads), share(kWidth)).is_share);
  EXPECT_EQ(quotient_of(share(product_of(literal_count(4), kHeads)), literal_count(2)),
            share(product_of(literal_count(2), kHeads)));
  EXPECT_FALSE(quotient_of(share(kHeads), literal_count(2)).is_known());
  EXPECT_FALSE(quotient_of(share(product_of(kHeads, kWidth)), kWidth).is_known())
      << "tp may divide head_dim, not num_heads";
  EXPECT_EQ(quotient_of(share(product_of(kHeads, kWidth)), share(kHeads)), kWidth);
}

TEST(Counts, QuotientsAreKnownIfTheyAreExact) {
  EXPECT_EQ(quotient_of(literal_count(6), literal_count(2)).literal(), 3);
  EXPECT_FALSE(quotient_of(literal_count(7), literal_count(2)).is_known());
  EXPECT_FALSE(quotient_of(literal_count(7), literal_count(0)).is_known());
  EXPECT_EQ(quotient_of(product_of(kHeads, kWidth), kHeads), kWidth);
  EXPECT_FALSE(quotient_of(kHeads, kWidth).is_known());
  EXPECT_FALSE(quotient_of(field_count("#1"), field_count("#1")).is_known()) << "of two tensors";
}

TEST(Counts, NumbersThatATypeDoesNotRepresent) {
  EXPECT_EQ(converted(literal_count(255), "long").literal(), 255);
  EXPECT_FALSE(converted(literal_count(255), "signed char").is_known());
  EXPECT_FALSE(converted(literal_count(-1), "unsigned long").is_known());
  EXPECT_FALSE(converted(literal_count(int64_t{1} << 31), "int").is_known());
  EXPECT_EQ(converted(literal_count(int64_t{1} << 31), "unsigned int").literal(), int64_t{1} << 31);
  EXPECT_FALSE(converted(literal_count(2), "bool").is_known());
  EXPECT_EQ(converted(kHeads, "int"), kHeads);
}

TEST(Counts, Overflow) {
  const Count most = literal_count(INT64_MAX);
  EXPECT_FALSE(sum_of(most, literal_count(1)).is_known());
  EXPECT_FALSE(product_of(most, literal_count(2)).is_known());
  EXPECT_FALSE(sum_of(literal_count(0), literal_count(INT64_MIN), /*subtracts=*/true).is_known());
}

TEST(Counts, Literals) {
  EXPECT_EQ(read_literal("12").literal(), 12);
  for (const char* text : {"012", "0x12", "12L", "1.5", "true", ""})
    EXPECT_FALSE(read_literal(text).is_known()) << text;
  EXPECT_FALSE(share(literal_count(4)).literal());
  EXPECT_EQ(literal_count(-1).product(), nullptr);
}

}  // namespace
}  // namespace modgen
