// Initialization of parameters. A model's reset_parameters() calls these; the runtime may take over what they do, so
// that one parameter at a time is whole and every mesh starts from the same numbers.
#pragma once

#include <cmath>
#include <functional>
#include <numbers>

#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular::init {

/// What a model is bound to that initializes sharded or not yet materialized parameters.
class Initializer {
 public:
  virtual ~Initializer() = default;
  /// Has `fill` write the whole parameter (in its global shape), or a part of it, and keeps what belongs to this rank.
  virtual void fill(const Tensor& parameter, const std::function<void(Tensor& whole)>& fill) = 0;
};

/// Has `write` give the parameter its values: all of it, in its global shape, without gradients. What the functions
/// below are made of; nothing where the parameter is undefined.
/// - parameter [...]
inline void fill(const Tensor& parameter, const std::function<void(Tensor& whole)>& write) {
  if (!parameter.defined()) return;
  if (bound.initializer) return bound.initializer->fill(parameter, write);
  at::NoGradGuard no_grad;
  Tensor whole = parameter.detach();
  write(whole);
}

/// From the normal distribution N(mean, std).
/// - parameter [...]
inline void normal_(const Tensor& parameter, double mean, double std) {
  fill(parameter, [=](Tensor& whole) { whole.normal_(mean, std); });
}
/// Uniform between `low` and `high`.
/// - parameter [...]
inline void uniform_(const Tensor& parameter, double low, double high) {
  fill(parameter, [=](Tensor& whole) { whole.uniform_(low, high); });
}
/// From N(0, std) without what lies more than `cutoff` deviations from 0.
/// - parameter [...]
inline void truncated_normal_(const Tensor& parameter, double std, double cutoff) {
  const double share = std::erf(cutoff / std::numbers::sqrt2);  // of the normal distribution, within the cutoff
  fill(parameter, [=](Tensor& whole) {
    whole.uniform_(-share, share).erfinv_().mul_(std * std::numbers::sqrt2).clamp_(-cutoff * std, cutoff * std);
  });
}
/// Each `value`.
/// - parameter [...]
inline void constant_(const Tensor& parameter, double value) {
  fill(parameter, [=](Tensor& whole) { whole.fill_(value); });
}
/// Uniform, so that a layer keeps the variance of values and of gradients (Glorot & Bengio).
/// - parameter [out, in]
inline void xavier_uniform_(const Tensor& parameter) {
  fill(parameter, [](Tensor& whole) { nn::init::xavier_uniform_(whole); });
}
/// From N(0, gain / sqrt(n)) where each output of a weight is a sum of n values (LeCun et al.).
/// - parameter [out, in, ...]
inline void fan_in_normal_(const Tensor& parameter, double gain = 1.0) {
  fill(parameter, [=](Tensor& whole) {
    whole.normal_(0.0, gain * std::sqrt(static_cast<double>(whole.size(0)) / static_cast<double>(whole.numel())));
  });
}
/// Each 0.
/// - parameter [...]
inline void zeros_(const Tensor& parameter) { constant_(parameter, 0.0); }
/// Each 1.
/// - parameter [...]
inline void ones_(const Tensor& parameter) { constant_(parameter, 1.0); }

/// Hugging Face's usual rule for the Linear, Conv2d and Embedding layers that `module` holds directly: weights from
/// N(0, std), biases 0, and the row of an embedding's padding index 0.
inline void linear_and_embedding_(nn::Module& module, double std) {
  for (const auto& child : module.children()) {
    if (auto* linear = child->as<nn::Linear>()) {
      normal_(linear->weight, 0.0, std);
      zeros_(linear->bias);
    } else if (auto* convolution = child->as<nn::Conv2d>()) {
      normal_(convolution->weight, 0.0, std);
      zeros_(convolution->bias);
    } else if (auto* transposed = child->as<TransposedLinearImpl>()) {
      normal_(transposed->weight, 0.0, std);
      zeros_(transposed->bias);
    } else if (auto* embedding = child->as<nn::Embedding>()) {
      const auto padding = embedding->options.padding_idx();
      fill(embedding->weight, [=](Tensor& whole) {
        whole.normal_(0.0, std);
        if (padding) whole.select(0, *padding < 0 ? *padding + whole.size(0) : *padding).zero_();
      });
    }
  }
}

/// Runs reset_parameters() of every model class in `root`, outermost first.
inline void reset(nn::Module& root) {
  for (const auto& module : root.modules())
    if (auto* model_class = dynamic_cast<Module*>(module.get())) model_class->reset_parameters();
}

}  // namespace modular::init
