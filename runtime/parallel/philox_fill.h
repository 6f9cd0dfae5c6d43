// Random numbers by counter, of elements that follow one another.
#pragma once

#include <cstdint>

namespace modular {

/// What an element is drawn from.
struct FloatDistribution {
  bool normal = false;
  float first = 0.0F;   // the lower bound, or the mean
  float second = 0.0F;  // upper less lower bound, or the standard deviation
  float cutoff = 0.0F;  // normal: no number lies more deviations from the mean
  float within = 1.0F;  // normal: the probability of what lies within the cutoff,
  float beyond = 0.0F;  // and that of the rest
};

/// Writes elements first … first + count - 1 of a tensor. They follow from `key` and their places alone, bit by bit the
/// same on every processor: the word of element e is word e / 16 % 4 of Philox4x32-10's counter
/// (e / 64 * 16 + e % 16, 0, 0), whose first number has 64 bits. A uniform number has the word's 24 high bits. Of a
/// normal one the highest bit is the sign, and the others say how much of the distribution lies farther from the mean,
/// so that its tails end after 6.3 deviations.
void philox_fill(const FloatDistribution& from, uint64_t key, int64_t first, int64_t count, float* values);

}  // namespace modular
