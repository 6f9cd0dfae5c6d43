// The classes that losses of training steps are taken over, where these are a sample of all: they follow from the run's
// seed and the step's number alone, and so are the same on every rank, in every micro-batch and stage, in a forward
// that is run again, and in a resumed run.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/model/sampled_softmax.h"
#include "runtime/parallel/class_sampling.h"

namespace modular {

struct SampledSoftmaxOptions {
  // Classes that are expected in a step's sample, which are all different; fewer than there are without padding's. 0:
  // losses are over all classes.
  int64_t samples = 0;
  std::string distribution = std::string(kLogUniform);  // or kUniform
};

class ClassSampler {
 public:
  /// Of `classes`, with padding's, for a model on `device`.
  ClassSampler(const SampledSoftmaxOptions& options, int64_t classes, uint64_t seed, const at::Device& device);

  /// Draws the sample of the step of that number.
  void begin_step(int64_t number);
  /// That sample.
  const SampledClasses& sampled() const { return sampled_; }

 private:
  ClassDistribution distribution_;
  int64_t classes_, draws_;
  uint64_t seed_;
  SampledClasses sampled_;
};

}  // namespace modular
