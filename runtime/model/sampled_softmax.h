// Sampled softmax: losses over a sample of many classes instead of all of them (Bengio & Senécal, Adaptive Importance
// Sampling to Accelerate Training of a Neural Probabilistic Language Model; Jean et al., On Using Very Large Target
// Vocabulary).
#pragma once

#include <limits>

#include "runtime/model/functions.h"
#include "runtime/model/parallel.h"

namespace modular {

/// The classes that each target of a training step is compared with. All forwards of the step use the same classes.
struct SampledClasses {
  Tensor ids;         // [sampled] int64, without duplicates
  Tensor log_counts;  // [classes] float32: log of each class's expected count in `ids`
};

/// Whether losses use a sample of the classes: only in training, if the run enables it.
inline bool samples_classes() { return bound.sampled != nullptr; }

namespace detail {

/// Implements sampled_cross_entropy(); rows(table, ids) looks up rows of `weight`, or of `bias` as [classes, 1].
template <class Rows>
Tensor cross_entropy_of_rows(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                             double temperature, const Rows& rows) {
  TORCH_CHECK(samples_classes(), "sampled_cross_entropy() without sampled classes: call it only if samples_classes()");
  const Tensor states = hidden.flatten(0, -2), flat = targets.flatten();
  const Tensor none = flat.eq(kIgnoredTarget), wanted = flat.masked_fill(none, 0);
  const Tensor sampled = bound.sampled->ids.to(flat.device()), log_counts = bound.sampled->log_counts.to(flat.device());
  const int64_t positions = flat.size(0), samples = sampled.size(0);
  // A single lookup, because each may be a sum over ranks.
  const Tensor ids = at::cat({wanted, sampled}), found = rows(weight, ids);
  Tensor target_logit = (states * found.narrow(0, 0, positions)).sum(-1, /*keepdim=*/true).to(at::kFloat);
  Tensor sampled_logits =
      states.matmul(found.narrow(0, positions, samples).t()).to(at::kFloat);  // [positions, sampled]
  if (bias.defined()) {
    const Tensor biases = rows(bias.unsqueeze(1), ids).to(at::kFloat);
    target_logit = target_logit + biases.narrow(0, 0, positions);
    sampled_logits = sampled_logits + biases.narrow(0, positions, samples).t();
  }
  target_logit = target_logit / temperature - log_counts.index_select(0, wanted).unsqueeze(1);
  sampled_logits = sampled_logits / temperature - log_counts.index_select(0, sampled);
  const Tensor is_target = wanted.unsqueeze(1).eq(sampled);
  const Tensor logits =
      at::cat({target_logit, sampled_logits.masked_fill(is_target, std::numeric_limits<float>::lowest())}, -1);
  return cross_entropy(logits, at::zeros_like(flat).masked_fill(none, kIgnoredTarget));
}

}  // namespace detail

/// The summed cross entropy of the targets, each over itself and the step's sampled classes. The logits of all classes
/// are (hidden weightᵀ + bias) / temperature. Each logit is reduced by the log of its class's expected count in the
/// sample, so that the sample stands for all classes. A sampled class that equals the position's target is not counted
/// twice. Only rows of these classes are read. It is an error to call this unless samples_classes().
/// - hidden [batch, seq, hidden]
/// - weight [classes, hidden]
/// - bias [classes], or undefined
/// - targets [batch, seq] int64; kIgnoredTarget for positions that do not count
/// - returns [] float32
inline Tensor sampled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                    const Tensor& targets, double temperature) {
  const auto rows = [](const Tensor& table, const Tensor& ids) { return at::embedding(table, ids); };
  return detail::cross_entropy_of_rows(hidden, weight, bias, targets, temperature, rows);
}

}  // namespace modular
