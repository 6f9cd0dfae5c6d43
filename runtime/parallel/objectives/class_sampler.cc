#include "runtime/parallel/objectives/class_sampler.h"

#include <ATen/ATen.h>

#include <cmath>
#include <vector>

#include "runtime/parallel/memory/copy_to_device.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

/// Salt that separates this RNG stream from others derived from the run's seed.
constexpr uint64_t kClassSamplingSalt = 0x73616d706c6564;

/// Returns the log-probability that each class is among the distinct classes of `tries` draws. Class 0 gets that of an
/// almost never sampled class, so that a target of it has a finite loss.
Tensor compute_log_counts(ClassDistribution distribution, int64_t classes, int64_t tries, const at::Device& device) {
  constexpr double kAlmostNever = 1e-16;
  const at::TensorOptions options = at::TensorOptions(at::kDouble).device(device);
  const Tensor rank = at::arange(1, classes, options);
  const Tensor probability = distribution == ClassDistribution::uniform
                                 ? at::full_like(rank, 1.0 / static_cast<double>(classes - 1))
                                 : rank.reciprocal().log1p() / std::log(static_cast<double>(classes));
  const Tensor counts = -(probability.neg().log1p() * static_cast<double>(tries)).expm1();
  return at::cat({at::full({1}, kAlmostNever, options), counts}).log().to(at::kFloat);
}

}  // namespace

ClassSampler::ClassSampler(const SampledSoftmaxOptions& options, int64_t classes, uint64_t seed,
                           const at::Device& device)
    : distribution_(options.distribution == kUniform ? ClassDistribution::uniform : ClassDistribution::log_uniform),
      classes_(classes),
      tries_(count_tries(distribution_, classes, options.samples)),
      seed_(mixed(seed ^ kClassSamplingSalt)) {
  sampled_.log_counts = compute_log_counts(distribution_, classes_, tries_, device);
}

void ClassSampler::begin_step(int64_t number) {
  const std::vector<int64_t> classes_of_step =
      sample_classes(distribution_, classes_, tries_, seed_ + static_cast<uint64_t>(number));
  sampled_.ids = copy_to_device(at::tensor(classes_of_step, at::kLong), sampled_.log_counts.device());
}

}  // namespace modular
