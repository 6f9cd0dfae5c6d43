// Counter-based sampling of classes for sampled-softmax losses, in scalar arithmetic that gives the same classes on
// every CPU.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace modular {

/// Distribution over classes. Class 0, which is padding, is never sampled.
enum class ClassDistribution {
  log_uniform,  // class i with probability log((i + 1) / i) / log(classes), close to Zipf's law with rank i
  uniform
};

/// Names of the distributions in config files.
inline constexpr std::string_view kLogUniform = "log-uniform", kUniform = "uniform";

/// Returns the smallest number of tries, with replacement, for which at least `samples` distinct classes are expected.
/// Requires samples < classes - 1.
int64_t count_tries(ClassDistribution distribution, int64_t classes, int64_t samples);

/// Returns the distinct classes among `tries` tries, in ascending order. They depend only on `key` and the arguments.
std::vector<int64_t> sample_classes(ClassDistribution distribution, int64_t classes, int64_t tries, uint64_t key);

}  // namespace modular
