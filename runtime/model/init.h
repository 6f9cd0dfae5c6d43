// Initialization of parameters. A model's reset_parameters() calls these functions. The runtime may take over, so that
// each rank samples only what it keeps and every mesh starts from the same numbers.
#pragma once

#include <c10/util/accumulate.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>

#include "runtime/model/linear.h"
#include "runtime/model/parallel.h"

namespace modular::init {

/// Distribution of one element of a parameter. Elements are independent, so any part of the parameter can be sampled
/// alone.
struct Distribution {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double first = 0.0;                                       // the constant, the lower bound, or the mean
  double second = 0.0;                                      // the upper bound, or the standard deviation
  double cutoff = std::numeric_limits<double>::infinity();  // normal: maximum deviation from the mean, in units of std
  std::optional<int64_t> zero_row = {};                     // index along the first dimension of a row of zeros
};

/// Runtime interface that initializes sharded or not yet materialized parameters.
class Initializer {
 public:
  virtual ~Initializer() = default;
  /// Samples this rank's part of the parameter. `get_distribution` maps the shape of the full parameter to the
  /// distribution.
  virtual void draw(const Tensor& parameter,
                    const std::function<Distribution(at::IntArrayRef shape)>& get_distribution) = 0;
  /// Calls `fill` to write the full parameter (in its global shape), or a part of it, and keeps this rank's part.
  virtual void fill(const Tensor& parameter, const std::function<void(Tensor& full)>& fill) = 0;
};

/// Samples each element, without gradients. `get_distribution` maps the shape of the full parameter to the
/// distribution. Does nothing if the parameter is undefined. Most of the functions below call this.
/// - parameter [...]
inline void draw(const Tensor& parameter, const std::function<Distribution(at::IntArrayRef shape)>& get_distribution) {
  if (!parameter.defined()) return;
  if (bound.initializer) return bound.initializer->draw(parameter, get_distribution);
  at::NoGradGuard no_grad;
  Tensor full = parameter.detach();
  const Distribution from = get_distribution(full.sizes());
  if (from.kind == Distribution::Kind::constant) {
    full.fill_(from.first);
  } else if (from.kind == Distribution::Kind::uniform) {
    full.uniform_(from.first, from.second);
  } else if (std::isinf(from.cutoff)) {
    full.normal_(from.first, from.second);
  } else {
    const double mass = std::erf(from.cutoff / std::numbers::sqrt2);  // of the normal distribution within the cutoff
    full.uniform_(-mass, mass).erfinv_().mul_(std::numbers::sqrt2).clamp_(-from.cutoff, from.cutoff);
    full.mul_(from.second).add_(from.first);
  }
  if (from.zero_row) full.select(0, *from.zero_row).zero_();
}

/// Calls `write` to write the full parameter, in its global shape, without gradients. Does nothing if the parameter is
/// undefined. For initializations that the functions below cannot express: each rank that keeps a part of the parameter
/// temporarily allocates all of it.
/// - parameter [...]
inline void fill(const Tensor& parameter, const std::function<void(Tensor& full)>& write) {
  if (!parameter.defined()) return;
  if (bound.initializer) return bound.initializer->fill(parameter, write);
  at::NoGradGuard no_grad;
  Tensor full = parameter.detach();
  write(full);
}

/// Samples from the normal distribution N(mean, std).
/// - parameter [...]
inline void normal_(const Tensor& parameter, double mean, double std) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::normal, mean, std}; });
}
/// Samples uniformly between `low` and `high`.
/// - parameter [...]
inline void uniform_(const Tensor& parameter, double low, double high) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::uniform, low, high}; });
}
/// Samples from N(0, std) truncated to `cutoff` standard deviations around 0.
/// - parameter [...]
inline void truncated_normal_(const Tensor& parameter, double std, double cutoff) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::normal, 0.0, std, cutoff}; });
}
/// Sets each element to `value`.
/// - parameter [...]
inline void constant_(const Tensor& parameter, double value) {
  draw(parameter, [=](at::IntArrayRef) { return Distribution{Distribution::Kind::constant, value}; });
}
/// Samples uniformly, with bounds that preserve the variance of activations and gradients through a layer (Glorot &
/// Bengio).
/// - parameter [out, in, ...]
inline void xavier_uniform_(const Tensor& parameter) {
  draw(parameter, [](at::IntArrayRef shape) {
    const int64_t fans = (shape.at(0) + shape.at(1)) * c10::multiply_integers(shape.slice(2));
    const double limit = std::sqrt(6.0 / static_cast<double>(fans));
    return Distribution{Distribution::Kind::uniform, -limit, limit};
  });
}
/// Samples from N(0, gain / sqrt(n)) for a weight whose outputs are sums of n values (LeCun et al.).
/// - parameter [out, in, ...]
inline void fan_in_normal_(const Tensor& parameter, double gain = 1.0) {
  draw(parameter, [=](at::IntArrayRef shape) {
    const auto summed = static_cast<double>(c10::multiply_integers(shape.slice(1)));
    return Distribution{Distribution::Kind::normal, 0.0, gain / std::sqrt(summed)};
  });
}
/// Sets each element to 0.
/// - parameter [...]
inline void zeros_(const Tensor& parameter) { constant_(parameter, 0.0); }
/// Sets each element to 1.
/// - parameter [...]
inline void ones_(const Tensor& parameter) { constant_(parameter, 1.0); }

/// Hugging Face's usual initialization of the Linear, Conv2d and Embedding layers that are direct children of `module`:
/// weights from N(0, std), biases 0, and the row of an embedding's padding index 0.
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

}  // namespace modular::init
