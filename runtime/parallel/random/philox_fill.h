// Counter-based random values for consecutive elements.
#pragma once

#include <cstdint>

namespace modular {

/// Distribution of one element.
struct FloatDistribution {
  bool normal = false;
  float first = 0.0F;   // lower bound, or mean
  float second = 0.0F;  // upper minus lower bound, or standard deviation
  float cutoff = 0.0F;  // normal: maximum distance from the mean, in standard deviations
  float within = 1.0F;  // normal: probability within the cutoff
  float beyond = 0.0F;  // normal: probability beyond the cutoff
};

/// Writes elements first … first + count - 1 of a tensor. A value depends only on `key` and the element index, and is
/// bitwise the same on every CPU. Element e uses word e / 16 % 4 of Philox4x32-10 at counter (e / 64 * 16 + e % 16, 0,
/// 0), whose first number has 64 bits. A uniform value uses the 24 high bits of the word. For a normal value the
/// highest bit is the sign, and the other bits select the probability mass farther from the mean, so that the tails end
/// after 6.3 standard deviations.
void philox_fill(const FloatDistribution& from, uint64_t key, int64_t first, int64_t count, float* values);

}  // namespace modular
