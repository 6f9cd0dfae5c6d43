// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaNumber {
  int64_t next() {
    static int64_t count = 0;
    return ++count;
  }
};

inline int64_t made = 0;

struct AlphaTagged {
  static constexpr int64_t tag = 1;
  static constexpr int64_t tags[] = {1, 2};
  static inline const int64_t number = ++made;
  const void* where() const { return &tag; }
  const int64_t& reference() const {
    static const int64_t local = 2;
    return local;
  }
  const int64_t* first() const { return tags; }
};

}  // namespace modular::alpha
