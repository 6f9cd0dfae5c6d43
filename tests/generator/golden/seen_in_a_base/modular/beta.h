// What comes after a base's body in C++ stays there: it reads a stream that the body writes, divides by what the body
// checks, or changes what the body reads. A super call in braces is evaluated before what follows it.
#pragma once

#include <utility>

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaTextImpl : public alpha::AlphaTextImpl {
 public:
  explicit BetaTextImpl(int64_t number) : AlphaTextImpl(number), text(stream.str()) {}

  std::string name() {
    const std::pair<std::string, std::string> both{AlphaTextImpl::name(), (total = "b")};
    return both.first + both.second;
  }

  std::string text;
};
TORCH_MODULE(BetaText);

/// Divides by what the base has checked.
class BetaInverseImpl : public alpha::AlphaInverseImpl {
 public:
  explicit BetaInverseImpl(int64_t number) : AlphaInverseImpl(number), inverse(100 / number) {}

  int64_t inverse;
};
TORCH_MODULE(BetaInverse);

/// Changes the parameter after the base has read it.
class BetaCountImpl : public alpha::AlphaCountImpl {
 public:
  explicit BetaCountImpl(int64_t number) : AlphaCountImpl(number), second(number++) {}

  int64_t second;
};
TORCH_MODULE(BetaCount);

}  // namespace modular::beta
