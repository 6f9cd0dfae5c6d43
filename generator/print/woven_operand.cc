#include "generator/print/woven_operand.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <string_view>

namespace modgen {

bool is_operand(const Tokens& woven, const WrappedOperand& call, const Tokens& flattened, size_t flat) {
  static const std::set<std::string_view> kNoOperator = {".", "->", "::"},
                                          kBefore = {"(", ",", "{", "[", "=", "return", "?", ":", ";", "}"},
                                          kAfter = {")", ",", "}", "]", ";", "?", ":"}, kSums = {"+", "-"},
                                          kProducts = {"*", "/", "%"}, kArithmetic = {"+", "-", "*", "/", "%"};
  std::set<std::string_view> operators;
  for (size_t at = call.begin; at < call.end; ++at) {
    const std::string_view word = woven.word(at);
    if (woven.opens(at))
      at = woven.closing(at);
    else if (word == "<" && woven.word(woven.find(">", at, call.end) + 1) == "(")
      at = woven.find(">", at, call.end);  // std::get<0>(values)
    else if (std::ispunct(static_cast<unsigned char>(word[0])) && !std::strchr("_\"'", word[0]) &&
             !kNoOperator.count(word))
      operators.insert(word);
  }
  // `f(model->) layer` has the tokens of `f(model->layer)`.
  const std::string_view after = woven.word(call.close + 1), before = flat > 0 ? flattened.word(flat - 1) : ";";
  if (call.begin == call.end || kNoOperator.count(woven.word(call.end - 1)) || woven.is_name(call.close + 1) ||
      kNoOperator.count(before))
    return false;
  if (operators.empty()) return true;
  // `x + f(a * b)`: a sign with two operands binds less than a product.
  const std::string_view operand = flat > 1 ? flattened.word(flat - 2) : "return";
  const bool has_operand = operand == ")" || operand == "]" || std::isdigit(static_cast<unsigned char>(operand[0])) ||
                           (operand != "return" && flattened.is_name(flat - 2));
  const bool is_product = std::ranges::includes(kProducts, operators);
  if (!(kSums.count(before) && is_product && has_operand) && !kBefore.count(before)) return false;
  if (kProducts.count(after)) return is_product;  // `f(a * b) / c`
  return kSums.count(after) ? std::ranges::includes(kArithmetic, operators)
                            : kAfter.count(after) && (after != "?" || !operators.count("?"));
}

}  // namespace modgen
