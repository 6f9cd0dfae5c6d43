#include "generator/weave/count.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace modgen {
namespace {

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> get_factors(const Count::Term& product) {
  std::vector<std::string> factors = product.fields;
  if (product.coefficient != 1) factors.push_back(std::to_string(product.coefficient));
  return factors;
}

std::string joined(const std::vector<std::string>& factors) {
  std::string text;
  for (const std::string& factor : factors) text.append(text.empty() ? "" : " * ").append(factor);
  return text;
}

/// An integer type: the range of its values.
struct IntegerType {
  std::string_view name;
  int bits;
  bool is_signed;
};

constexpr std::array kIntegerTypes = {IntegerType{"char", 8, true},
                                      IntegerType{"signed char", 8, true},
                                      IntegerType{"unsigned char", 8, false},
                                      IntegerType{"short", 16, true},
                                      IntegerType{"unsigned short", 16, false},
                                      IntegerType{"int", 32, true},
                                      IntegerType{"unsigned int", 32, false},
                                      IntegerType{"long", 64, true},
                                      IntegerType{"unsigned long", 64, false},
                                      IntegerType{"long long", 64, true},
                                      IntegerType{"unsigned long long", 64, false}};

bool represents(const IntegerType& type, int64_t number) {
  if (!type.is_signed && number < 0) return false;
  if (type.bits == 64) return true;
  const int64_t limit = int64_t{1} << (type.is_signed ? type.bits - 1 : type.bits);
  return number < limit && number >= (type.is_signed ? -limit : 0);
}

/// Adds `term`. Only literals are merged: other terms stand for the parts of a dimension. Returns false if a
/// coefficient overflows.
bool add_term(std::vector<Count::Term>& terms, Count::Term term) {
  for (Count::Term& other : terms)
    if (other.fields.empty() && term.fields.empty())
      return !__builtin_add_overflow(other.coefficient, term.coefficient, &other.coefficient);
  terms.push_back(std::move(term));
  return true;
}

}  // namespace

bool Count::Term::operator==(const Term& other) const {
  return coefficient == other.coefficient && sorted(fields) == sorted(other.fields);
}

std::optional<int64_t> Count::literal() const {
  const bool is_literal = !is_share && terms.size() == 1 && terms[0].fields.empty();
  return is_literal ? std::optional(terms[0].coefficient) : std::nullopt;
}

const Count::Term* Count::product() const {
  return terms.size() == 1 && terms[0].coefficient > 0 ? terms.data() : nullptr;
}

Count literal_count(int64_t number) {
  Count count;
  count.terms = {{number, {}}};
  return count;
}

Count read_literal(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_octal = text.size() > 1 && text.front() == '0';
  return error != std::errc() || end != text.data() + text.size() || is_octal ? Count() : literal_count(number);
}

Count field_count(std::string field) {
  Count count;
  count.terms = {{1, {std::move(field)}}};
  return count;
}

Count sum_of(const Count& a, const Count& b, bool subtracts) {
  Count sum;
  sum.is_share = a.is_share;
  if (!a.is_known() || !b.is_known()) return sum;
  sum.terms = a.terms;
  for (Count::Term term : b.terms) {
    const bool fits = (!subtracts || !__builtin_sub_overflow(int64_t{0}, term.coefficient, &term.coefficient)) &&
                      add_term(sum.terms, std::move(term));
    if (fits) continue;
    sum.terms.clear();
    return sum;
  }
  return sum;
}

Count product_of(const Count& a, const Count& b) {
  Count product;
  product.is_share = a.is_share || b.is_share;
  for (const Count::Term& one : a.terms)
    for (const Count::Term& other : b.terms) {
      Count::Term term = one;
      term.fields.insert(term.fields.end(), other.fields.begin(), other.fields.end());
      if (!__builtin_mul_overflow(one.coefficient, other.coefficient, &term.coefficient) &&
          add_term(product.terms, std::move(term)))
        continue;
      product.terms.clear();
      return product;
    }
  return product;
}

Count quotient_of(const Count& a, const Count& b) {
  Count quotient;
  quotient.is_share = a.is_share && !b.is_share;
  if (b.terms.size() != 1 || b.terms[0].coefficient == 0) return quotient;
  const Count::Term& divisor = b.terms[0];
  if (quotient.is_share && !divisor.fields.empty()) return quotient;  // which field is divided by tp is not known
  for (Count::Term term : a.terms) {
    bool divides = divisor.coefficient != -1 && term.coefficient % divisor.coefficient == 0;
    for (const std::string& field : divisor.fields) {
      const auto same = std::find(term.fields.begin(), term.fields.end(), field);
      divides = divides && same != term.fields.end() && field.front() != kOwnSize;
      if (same != term.fields.end()) term.fields.erase(same);
    }
    if (!divides) {
      quotient.terms.clear();
      return quotient;
    }
    term.coefficient /= divisor.coefficient;
    quotient.terms.push_back(std::move(term));
  }
  return quotient;
}

std::optional<Count> without_factors(const Count& product, const Count& divisor) {
  const Count::Term *all = product.product(), *some = divisor.product();
  if (!all || !some || all->coefficient % some->coefficient != 0) return std::nullopt;
  Count::Term quotient{all->coefficient / some->coefficient, all->fields};
  for (const std::string& field : some->fields) {
    const auto same = std::ranges::find(quotient.fields, field);
    if (same == quotient.fields.end()) return std::nullopt;
    quotient.fields.erase(same);
  }
  Count result;
  result.terms = {std::move(quotient)};
  return result;
}

Count converted(Count count, std::string_view type) {
  const std::optional<int64_t> number = count.literal();
  if (!number) return count;
  const auto integer = std::find_if(kIntegerTypes.begin(), kIntegerTypes.end(),
                                    [&](const IntegerType& one) { return one.name == type; });
  const bool is_integer = integer != kIntegerTypes.end();
  if (type == "bool" || type == "float" || (is_integer && !represents(*integer, *number))) count.terms.clear();
  return count;
}

std::string to_text(const Count::Term& product) { return joined(sorted(get_factors(product))); }

std::string written_text(const Count::Term& product) { return joined(get_factors(product)); }

}  // namespace modgen
