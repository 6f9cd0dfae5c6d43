// The base of beta.h: templates that name members of what they are given, and methods that hand their object on.
#pragma once

#include <functional>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class Box>
int64_t read(const Box& box) {
  return box.value() * 10;
}
template <class Box>
int64_t read_twice(const Box& box) {
  return read(box) * 2;
}

struct AlphaCast {
  int64_t value() const { return 1; }
};
struct AlphaNamed {
  int64_t value() const { return 1; }
};
struct AlphaResult {
  int64_t value() const { return 1; }
  const AlphaResult& itself() const { return *this; }
};
struct AlphaTwice {
  int64_t value() const { return 1; }
};
struct AlphaOfMember {
  template <class Box>
  static int64_t read(const Box& box) {
    return box.value();
  }
  int64_t value() const { return 1; }
};
struct AlphaCalledBack {
  int64_t value() const { return 1; }
  template <class Function>
  int64_t with(Function function) const {
    return function(*this);
  }
};
struct AlphaFunction {
  int64_t value() const { return 1; }
  int64_t with(const std::function<int64_t(const AlphaFunction&)>& function) const { return function(*this); }
};
struct AlphaPointer {
  int64_t value() const { return 1; }
  int64_t with(int64_t (*function)(const AlphaPointer&)) const { return function(*this); }
};

struct AlphaSized {
  int64_t size() const { return 1; }
};
struct AlphaTaken {
  int64_t value() const { return 1; }
};

struct AlphaSeen;
struct AlphaWatcher {
  virtual ~AlphaWatcher() = default;
  virtual void see(const AlphaSeen& seen) = 0;
  int64_t sum = 0;
};
struct AlphaSeen {
  int64_t value() const { return 1; }
  void show(AlphaWatcher& watcher) const { watcher.see(*this); }
};

}  // namespace modular::alpha
