// Constructions in parentheses whose type or arguments depend on a parameter of a template.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class P>
std::unique_ptr<P> alpha_new(int64_t n) {
  return std::unique_ptr<P>(new P(n));
}

struct AlphaRow {
  template <class Mutex>
  int64_t locked(Mutex& mutex) const {
    const std::lock_guard<Mutex> lock(mutex);
    return width;
  }
  int64_t first(const auto& range) const {
    std::vector<int64_t> copied(range.begin(), range.end());
    return copied.at(0);
  }
  size_t made(int64_t n) const {
    const auto zeros = [](auto count) {
      std::vector<int64_t> all(count);
      return all.size();
    };
    return zeros(n);
  }
  int64_t width = *alpha_new<int64_t>(4);
};

}  // namespace modular::alpha
