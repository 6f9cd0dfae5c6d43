// Numbers as sums of products of config fields, of which a rank may have a share. The trace of constructors and the
// interpreter of methods compute with the same ones, so that a size in a constructor and a size in a view can be
// compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modgen {

/// Prefix of the names of sizes other than config fields: those of the batch, and those of values whose size is not
/// known otherwise. Each name is one number.
inline constexpr char kOwnSize = '#';

struct Count {
  /// A product: the coefficient times the fields.
  struct Term {
    int64_t coefficient = 1;
    // Config fields, in order of appearance: "text_config.hidden_size" for a nested config; other sizes: "#batch",
    // "#17".
    std::vector<std::string> fields;

    /// The order of fields does not matter.
    bool operator==(const Term& other) const;
  };
  std::vector<Term> terms;  // the number is their sum; empty if it is not known
  bool is_share = false;    // a rank's number is that sum divided by tp: a TP_LOCAL count, a size of a split dimension

  bool operator==(const Count&) const = default;
  bool is_known() const { return !terms.empty(); }
  /// The number, if it has no config fields and is not a share.
  std::optional<int64_t> literal() const;
  /// The number's only term, if that is positive; null otherwise.
  const Term* product() const;
};

Count literal_count(int64_t number);
/// The number that the text of an integer literal stands for; not known for a literal with a prefix or suffix.
Count read_literal(std::string_view text);
Count field_count(std::string field);

/// a + b, or a - b. Both have to be shares, or neither.
Count sum_of(const Count& a, const Count& b, bool subtracts = false);
/// a * b. At most one may be a share.
Count product_of(const Count& a, const Count& b);
/// a / b, known only if it is exact for every config. A share divided by a share is not a share; a share divided by a
/// literal is one if the quotient is known.
Count quotient_of(const Count& a, const Count& b);
/// A product without the factors of another; empty if it does not have them all. Both are sizes of one tensor, which
/// has all elements that its sizes count: no factor is 0.
std::optional<Count> without_factors(const Count& product, const Count& divisor);
/// `count` as a value of the C++ type `type`. Not known any more if the type does not represent it.
Count converted(Count count, std::string_view type);

/// The factors of a product, sorted, as text: "2 * head_dim".
std::string to_text(const Count::Term& product);
/// The factors of a product in order of appearance, the coefficient last: "head_dim * 2".
std::string written_text(const Count::Term& product);

}  // namespace modgen
