// The base of beta.h. Its templates ask what its classes have.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class Box>
auto length(const Box& box, int) -> decltype(box.size()) {
  return box.size();
}
template <class Box>
int64_t length(const Box&, long) {
  return 1;
}

template <class Box>
int64_t measured(const Box& box) {
  return length(box, 0);
}

template <class Box>
int64_t extra(const Box& box) {
  if constexpr (requires { box.extra; })
    return box.extra;
  else
    return 0;
}

template <class Box>
int64_t bytes(const Box&) {
  return static_cast<int64_t>(sizeof(Box));
}

struct AlphaMeasured {
  int64_t f() const { return measured(*this); }
};

struct AlphaExtra {
  int64_t f() const { return alpha::extra(*this); }
};

struct AlphaBytes {
  int64_t width = 1;
  int64_t f() const { return bytes(*this); }
};

struct AlphaSame {
  int64_t size() const { return 1; }
  int64_t f() const { return measured(*this); }
};

}  // namespace modular::alpha
