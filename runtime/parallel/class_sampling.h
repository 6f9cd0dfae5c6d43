// Classes drawn by counter for losses over a sample of them, in plain numbers: which are drawn is the same on every
// processor.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace modular {

/// What classes are drawn from. Class 0, which is padding, is never drawn.
enum class ClassDistribution {
  log_uniform,  // class i with probability log((i + 1) / i) / log(classes): nearly Zipf's law, of the rank i
  uniform
};

/// The names that settings have for them.
inline constexpr std::string_view kLogUniform = "log-uniform", kUniform = "uniform";

/// The fewest draws, with replacement, of which at least `samples` distinct classes are expected, for samples < classes
/// - 1.
int64_t count_draws(ClassDistribution distribution, int64_t classes, int64_t samples);

/// The distinct classes among `draws` draws, in their order. `key` decides.
std::vector<int64_t> sample_classes(ClassDistribution distribution, int64_t classes, int64_t draws, uint64_t key);

}  // namespace modular
