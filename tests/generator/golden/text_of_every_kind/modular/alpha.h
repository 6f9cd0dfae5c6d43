// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

// A comment that belongs to nothing, with non-ASCII text: größer als 0, 模型.

/* A block comment
   of two lines, about Alpha. */
inline constexpr const char* kAlphaPattern = R"re(every "raw" \d+
second line)re";

class AlphaTextImpl : public Module {
 public:  // the public part
  // Before the constructor.
  AlphaTextImpl() = default;  // after it

  // First line,
  // second line.
  Tensor forward(const Tensor& x /* the input */, int64_t n = 1 /* times */) {
    /* leading */ Tensor y = x;  // trailing: α, β
    for (int64_t i = 0; i < n; ++i) {
      // Inside a loop.
      y = y * 2.0 /* between */ + 1.0;
    }
    TORCH_CHECK(y.defined() && n < std::numeric_limits<int64_t>::max(), "alpha: ", n, " is too many (\"alpha\")", " µ");
    return y;
    // At the end of a body.
  }
  // At the end of the class.
};  // after the class
TORCH_MODULE(AlphaText);  // after the holder

}  // namespace modular::alpha
