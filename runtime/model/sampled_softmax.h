// Losses over a sample of many classes instead of all of them (Bengio & Senécal, Adaptive Importance Sampling to
// Accelerate Training of a Neural Probabilistic Language Model; Jean et al., On Using Very Large Target Vocabulary).
#pragma once

#include <limits>

#include "runtime/model/functions.h"
#include "runtime/model/parallel.h"

namespace modular {

/// The classes that each target of a training step is compared with: the same in all forwards of the step.
struct SampledClasses {
  Tensor ids;         // [sampled] int64, each once
  Tensor log_counts;  // [classes] float32: of each class the log of how often it is expected among `ids`
};

/// Whether losses are taken over a sample of the classes: in training alone, and where the run says so.
inline bool samples_classes() { return bound.sampled != nullptr; }

namespace detail {

/// sampled_cross_entropy() where rows(table, ids) gives rows of `weight`, and of `bias` as [classes, 1].
template <class Rows>
Tensor cross_entropy_of_rows(const Tensor& hidden, const Tensor& weight, const Tensor& bias, const Tensor& targets,
                             double temperature, const Rows& rows) {
  TORCH_CHECK(samples_classes(), "sampled_cross_entropy() where no classes are sampled: ask samples_classes() before");
  const Tensor states = hidden.flatten(0, -2), flat = targets.flatten();
  const Tensor none = flat.eq(kIgnoredTarget), wanted = flat.masked_fill(none, 0);
  const Tensor sampled = bound.sampled->ids.to(flat.device()), log_counts = bound.sampled->log_counts.to(flat.device());
  const int64_t positions = flat.size(0), samples = sampled.size(0);
  // One lookup, as each may be a sum over ranks.
  const Tensor ids = at::cat({wanted, sampled}), found = rows(weight, ids);
  Tensor of_target = (states * found.narrow(0, 0, positions)).sum(-1, /*keepdim=*/true).to(at::kFloat);
  Tensor of_others = states.matmul(found.narrow(0, positions, samples).t()).to(at::kFloat);  // [positions, sampled]
  if (bias.defined()) {
    const Tensor biases = rows(bias.unsqueeze(1), ids).to(at::kFloat);
    of_target = of_target + biases.narrow(0, 0, positions);
    of_others = of_others + biases.narrow(0, positions, samples).t();
  }
  of_target = of_target / temperature - log_counts.index_select(0, wanted).unsqueeze(1);
  of_others = of_others / temperature - log_counts.index_select(0, sampled);
  const Tensor is_target = wanted.unsqueeze(1).eq(sampled);
  const Tensor logits =
      at::cat({of_target, of_others.masked_fill(is_target, std::numeric_limits<float>::lowest())}, -1);
  return cross_entropy(logits, at::zeros_like(flat).masked_fill(none, kIgnoredTarget));
}

}  // namespace detail

/// The sum of the cross entropy of the targets, each among itself and the classes that the step samples, where the
/// logits of all classes are (hidden weightᵀ + bias) / temperature. Of each logit the log of how often its class is
/// expected among the samples is subtracted, so that the sample stands for all classes; a sample that is the position's
/// own target does not count again. Only rows of these classes are read. Where samples_classes(), and an error
/// elsewhere.
/// - hidden [batch, seq, hidden]
/// - weight [classes, hidden]
/// - bias [classes], or undefined
/// - targets [batch, seq] int64; kIgnoredTarget for those that do not count
/// - returns [] float32
inline Tensor sampled_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& bias,
                                    const Tensor& targets, double temperature) {
  const auto rows = [](const Tensor& table, const Tensor& ids) { return at::embedding(table, ids); };
  return detail::cross_entropy_of_rows(hidden, weight, bias, targets, temperature, rows);
}

}  // namespace modular
