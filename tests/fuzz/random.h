// Random choices that depend only on a seed, and are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace modular::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// Vigna's splitmix64.
  uint64_t next() {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  /// From 0 to `count` - 1; 0 if `count` is 0.
  size_t below(size_t count) { return count == 0 ? 0 : static_cast<size_t>(next() % count); }
  bool one_in(size_t count) { return below(count) == 0; }

  template <class List>
  auto& pick(List&& list) {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

 private:
  uint64_t state_;
};

}  // namespace modular::fuzz
