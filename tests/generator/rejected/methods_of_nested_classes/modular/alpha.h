// Methods of a nested class that are defined outside of it.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaBox {
  class Guard {
   public:
    explicit Guard(AlphaBox& b);
    int64_t count() const;

   private:
    AlphaBox& box_;
  };
  int64_t a = 1;
};

inline AlphaBox::Guard::Guard(AlphaBox& b) : box_(b) { ++box_.a; }

inline int64_t AlphaBox::Guard::count() const { return box_.a; }

}  // namespace modular::alpha
