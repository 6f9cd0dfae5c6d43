// Samples the classes over which a training step's loss is computed. The sample depends only on the run's seed and the
// step number, so it is the same on every rank, in every micro-batch and stage, in a recomputed forward and in a
// resumed run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/sampled_softmax.h"
#include "runtime/parallel/step/feature.h"

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

struct SampledSoftmaxOptions {
  // Expected number of distinct classes in a step's sample; less than the number of classes without padding. 0: the
  // loss is over all classes.
  int64_t samples = 0;
  std::string distribution = std::string(kLogUniform);  // or kUniform
};

class ClassSampler final : public Feature {
 public:
  /// `classes` includes the padding class. The sample is placed on `device`.
  ClassSampler(const SampledSoftmaxOptions& options, int64_t classes, uint64_t seed, const at::Device& device);

  /// Samples the classes of step `number`.
  void sample(int64_t number);
  void begin_step(TrainingStep& step) override { sample(step.number); }
  /// Sample of the current step.
  const SampledClasses& sampled() const { return sampled_; }

 private:
  ClassDistribution distribution_;
  int64_t classes_, tries_;
  uint64_t seed_;
  SampledClasses sampled_;
};

}  // namespace modular
