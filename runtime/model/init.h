// Initialization of parameters. A model's reset_parameters() calls these; the runtime may take over what they do, so
// that each rank draws what it keeps and every mesh starts from the same numbers.
#pragma once

#include <c10/util/accumulate.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>

#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular::init {

/// What each element of a parameter is drawn from, by itself: any part of the parameter can be drawn alone.
struct Distribution {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double first = 0.0;                                       // the constant, the lower bound, or the mean
  double second = 0.0;                                      // the upper bound, or the standard deviation
  double cutoff = std::numeric_limits<double>::infinity();  // normal: nothing lies more deviations from the mean
  std::optional<int64_t> zero_row = {};                     // along the first dimension: 0 instead
};

/// What a model is bound to that initializes sharded or not yet materialized parameters.
class Initializer {
 public:
  virtual ~Initializer() = default;
  /// Draws what belongs to this rank from the distribution that `of` gives for the full parameter's shape.
  virtual void draw(const Tensor& parameter, const std::function<Distribution(at::IntArrayRef shape)>& of) = 0;
  /// Has `fill` write the full parameter (in its global shape), or a part of it, and keeps what belongs to this rank.
  virtual void fill(const Tensor& parameter, const std::function<void(Tensor& whole)>& fill) = 0;
};

/// Draws each element from the distribution that `of` gives for the shape of the full parameter, without gradients;
/// nothing where the parameter is undefined. What most of the functions below are made of.
/// - parameter [...]
inline void draw(const Tensor& parameter, const std::function<Distribution(at::IntArrayRef shape)>& of) {
  if (!parameter.defined()) return;
  if (bound.initializer) return bound.initializer->draw(parameter, of);
  at::NoGradGuard no_grad;
  Tensor whole = parameter.detach();
  const Distribution from = of(whole.sizes());
  if (from.kind == Distribution::Kind::constant) {
    whole.fill_(from.first);
  } else if (from.kind == Distribution::Kind::uniform) {
    whole.uniform_(from.first, from.second);
  } else if (std::isinf(from.cutoff)) {
    whole.normal_(from.first, from.second);
  } else {
    const double share = std::erf(from.cutoff / std::numbers::sqrt2);  // of the normal distribution, within the cutoff
    whole.uniform_(-share, share).erfinv_().mul_(std::numbers::sqrt2).clamp_(-from.cutoff, from.cutoff);
    whole.mul_(from.second).add_(from.first);
  }
  if (from.zero_row) whole.select(0, *from.zero_row).zero_();
}

/// Has `write` give the parameter its values: all of it, in its global shape, without gradients; nothing where the
/// parameter is undefined. For what the functions below cannot say: each rank that keeps a part of the parameter holds
/// all of it meanwhile.
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
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::normal, mean, std}; });
}
/// Uniform between `low` and `high`.
/// - parameter [...]
inline void uniform_(const Tensor& parameter, double low, double high) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::uniform, low, high}; });
}
/// From N(0, std) without what lies more than `cutoff` deviations from 0.
/// - parameter [...]
inline void truncated_normal_(const Tensor& parameter, double std, double cutoff) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::normal, 0.0, std, cutoff}; });
}
/// Each `value`.
/// - parameter [...]
inline void constant_(const Tensor& parameter, double value) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::constant, value}; });
}
/// Uniform, so that a layer keeps the variance of values and of gradients (Glorot & Bengio).
/// - parameter [out, in, ...]
inline void xavier_uniform_(const Tensor& parameter) {
  draw(parameter, [](at::IntArrayRef shape) {
    const int64_t fans = (shape.at(0) + shape.at(1)) * c10::multiply_integers(shape.slice(2));
    const double limit = std::sqrt(6.0 / static_cast<double>(fans));
    return Distribution{Distribution::Kind::uniform, -limit, limit};
  });
}
/// From N(0, gain / sqrt(n)) where each output of a weight is a sum of n values (LeCun et al.).
/// - parameter [out, in, ...]
inline void fan_in_normal_(const Tensor& parameter, double gain = 1.0) {
  draw(parameter, [=](at::IntArrayRef shape) {
    const auto summed = static_cast<double>(c10::multiply_integers(shape.slice(1)));
    return Distribution{Distribution::Kind::normal, 0.0, gain / std::sqrt(summed)};
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
      draw(embedding->weight, [=](at::IntArrayRef shape) {
        Distribution from{Distribution::Kind::normal, 0.0, std};
        if (padding) from.zero_row = *padding < 0 ? *padding + shape[0] : *padding;
        return from;
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
