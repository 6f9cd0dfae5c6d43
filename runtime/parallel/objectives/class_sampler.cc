#include "runtime/parallel/objectives/class_sampler.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/parallel/memory/host_transfers.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

/// log((1 + y) / (1 - y)) for |y| <= 1 / 3. libm's logarithms differ between libraries and CPUs.
double log_of_ratio(double y) {
  constexpr int kTerms = 18;
  const double square = y * y;
  double sum = 0.0;
  for (int term = kTerms - 1; term >= 0; --term) sum = sum * square + 1.0 / (2 * term + 1);
  return 2.0 * y * sum;
}

double logarithm(int64_t number) {
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(number), &exponent);  // from 1/2 to 1, and exact
  return log_of_ratio((fraction - 0.75) / (fraction + 0.75)) + log_of_ratio(-1.0 / 7.0) +
         static_cast<double>(exponent) * log_of_ratio(1.0 / 3.0);
}

/// `base` to the power of `exponent`, only by multiplications, for the same result on every CPU.
double power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1) result *= base;
  return result;
}

/// Returns, for each class but padding, the probability that one try misses it; a single value for the uniform
/// distribution.
std::vector<double> miss_probabilities(ClassDistribution distribution, int64_t classes) {
  if (distribution == ClassDistribution::uniform) return {1.0 - 1.0 / static_cast<double>(classes - 1)};
  const double all = logarithm(classes);
  std::vector<double> missed;
  for (int64_t i = 1; i < classes; ++i)
    missed.push_back(1.0 - log_of_ratio(1.0 / static_cast<double>(2 * i + 1)) / all);
  return missed;
}

/// Maps a number in [0, 1) to a class by the inverse distribution function.
int64_t class_at(ClassDistribution distribution, int64_t classes, double all, double number) {
  if (distribution == ClassDistribution::uniform)
    return std::min(1 + static_cast<int64_t>(number * static_cast<double>(classes - 1)), classes - 1);
  const double wanted = number * all;
  // libm's result may be off by one at a boundary.
  int64_t found = std::clamp(static_cast<int64_t>(std::exp(wanted)), int64_t{1}, classes - 1);
  while (found > 1 && logarithm(found) > wanted) --found;
  while (found < classes - 1 && logarithm(found + 1) <= wanted) ++found;
  return found;
}

}  // namespace

int64_t count_tries(ClassDistribution distribution, int64_t classes, int64_t samples) {
  const std::vector<double> missed = miss_probabilities(distribution, classes);
  const double classes_per_value = static_cast<double>(classes - 1) / static_cast<double>(missed.size());
  const auto are_enough = [&](int64_t tries) {
    double distinct = 0.0;
    for (const double each : missed) distinct += 1.0 - power(each, tries);
    return classes_per_value * distinct >= static_cast<double>(samples);
  };
  int64_t least = samples, most = samples;
  while (!are_enough(most)) least = most + 1, most *= 2;
  while (least < most) {
    const int64_t middle = least + (most - least) / 2;
    if (are_enough(middle))
      most = middle;
    else
      least = middle + 1;
  }
  return most;
}

std::vector<int64_t> sample_classes(ClassDistribution distribution, int64_t classes, int64_t tries, uint64_t key) {
  const double all = logarithm(classes);
  std::vector<int64_t> sampled(static_cast<size_t>(tries));
  for (size_t i = 0; i < sampled.size(); ++i)
    sampled[i] = class_at(distribution, classes, all, static_cast<double>(mixed(mixed(key) + i) >> 11) * 0x1p-53);
  std::ranges::sort(sampled);
  const auto repeated = std::ranges::unique(sampled);
  sampled.erase(repeated.begin(), repeated.end());
  return sampled;
}

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

void ClassSampler::sample(int64_t number) {
  const std::vector<int64_t> classes_of_step =
      sample_classes(distribution_, classes_, tries_, seed_ + static_cast<uint64_t>(number));
  sampled_.ids = copy_to_device(at::tensor(classes_of_step, at::kLong), sampled_.log_counts.device());
}

}  // namespace modular
