// Code after a base's body in C++ stays there: it reads a stream that the body writes, divides by what the body
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

/// Calls the base's method of two objects.
struct BetaLabel : alpha::AlphaLabel {
  std::string shown() const { return text + "!"; }
  std::string both(const BetaLabel& other) const { return AlphaLabel::shown() + other.AlphaLabel::shown(); }
};

/// Reads what the base's body sets.
class BetaLedImpl : public alpha::AlphaLedImpl {
 public:
  BetaLedImpl()
      : last(values[2]), name(names[0]), twice(pointed * 2), thrice(referred * 3), counted(alpha::alpha_count) {}

  double last;
  std::string name;
  int64_t twice;
  int64_t thrice;
  int64_t counted;
};
TORCH_MODULE(BetaLed);

}  // namespace modular::beta
