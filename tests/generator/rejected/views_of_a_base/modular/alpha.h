// The base of beta.h, with a function template of which one instance differs.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

class AlphaSizeImpl : public Module {
 public:
  int64_t size() { return 1; }
  AlphaSizeImpl& itself() { return *this; }
};
TORCH_MODULE(AlphaSize);

struct AlphaArea {
  virtual ~AlphaArea() = default;
  virtual int64_t area() const { return 1; }
  int64_t width = 1;
};

struct AlphaVolume {
  virtual ~AlphaVolume() = default;
  virtual int64_t volume() const { return 1; }
};

struct AlphaLength {
  virtual ~AlphaLength() = default;
  virtual int64_t length() const { return 1; }
};

struct AlphaWeight {
  virtual ~AlphaWeight() = default;
  virtual int64_t weight() const { return 1; }
};

struct AlphaHeight {
  virtual ~AlphaHeight() = default;
  virtual int64_t height() const { return 1; }
};

template <class Number>
int64_t rounded(Number number) {
  return static_cast<int64_t>(number);
}
template <>
inline int64_t rounded<double>(double number) {
  return static_cast<int64_t>(number + 0.5);
}

struct AlphaNumber {
  int64_t number = 3;
  operator int64_t() const { return number; }
};
}  // namespace modular::alpha
