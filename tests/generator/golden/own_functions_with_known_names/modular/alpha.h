// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline void get(int64_t& number) { number += 7; }
inline void forward(int64_t& number) { number *= 2; }
inline void as_const(int64_t& number) { number -= 1; }

struct AlphaBox {
  AlphaBox() {
    register_size(5);
    get(size);
    forward(size);
    as_const(size);
  }
  void register_size(int64_t number) { size = number; }
  int64_t size = 0;
};

struct AlphaRow {
  AlphaRow() { register_module("size", 4); }
  int64_t register_module(const std::string& name, int64_t number) {
    names += name;
    return size = number;
  }
  std::string names;
  int64_t size = 0;
};

}  // namespace modular::alpha
