// Samples the classes over which a training step's loss is computed. The sample depends only on the run's seed and the
// step number, so it is the same on every rank, in every micro-batch and stage, in a recomputed forward and in a
// resumed run.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/model/sampled_softmax.h"
#include "runtime/parallel/random/class_sampling.h"

namespace modular {

struct SampledSoftmaxOptions {
  // Expected number of distinct classes in a step's sample; less than the number of classes without padding. 0: the
  // loss is over all classes.
  int64_t samples = 0;
  std::string distribution = std::string(kLogUniform);  // or kUniform
};

class ClassSampler {
 public:
  /// `classes` includes the padding class. The sample is placed on `device`.
  ClassSampler(const SampledSoftmaxOptions& options, int64_t classes, uint64_t seed, const at::Device& device);

  /// Samples the classes of step `number`.
  void begin_step(int64_t number);
  /// Sample of the current step.
  const SampledClasses& sampled() const { return sampled_; }

 private:
  ClassDistribution distribution_;
  int64_t classes_, tries_;
  uint64_t seed_;
  SampledClasses sampled_;
};

}  // namespace modular
