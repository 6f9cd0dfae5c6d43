// Operands of woven calls.
#pragma once

#include "generator/source/slices.h"

namespace modgen {

/// A call around an operand: the operand's tokens, and the parenthesis that ends the call.
struct WrappedOperand {
  size_t begin = 0, end = 0, close = 0;
};

/// Whether the operand of the woven call is the same expression at token `flat` of the flattened text, where no call is
/// around it.
bool is_operand(const Tokens& woven, const WrappedOperand& call, const Tokens& flattened, size_t flat);

}  // namespace modgen
