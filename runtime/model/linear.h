// Linear layers, embeddings and projections of patches: libtorch's, with a GEMM that the runtime may replace.
#pragma once

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>

#include "runtime/model/fused.h"
#include "runtime/model/tensors.h"

namespace modular {

/// An addition to the output of a linear layer that the runtime installs, such as LoRA.
class Adapter {
 public:
  virtual ~Adapter() = default;
  /// - x [..., in]: this rank's features if the layer is split by input feature
  /// - returns [..., out]: this rank's features, or this rank's partial sum, like the layer's own output
  virtual Tensor forward(const Tensor& x) = 0;
};

namespace detail {
/// x times a weight [out, in] or, if `is_transposed`, [in, out], plus a bias, which may be undefined.
inline Tensor plain_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed) {
  if (!is_transposed) return at::linear(x, weight, bias);
  if (!bias.defined()) return at::matmul(x, weight);
  return at::addmm(bias, x.flatten(0, -2), weight).unflatten(0, x.sizes().slice(0, x.dim() - 1));
}

/// plain_matmul(), but in float8 if `in_float8` is set and the program has a float8 kernel.
inline Tensor gemm(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed, bool in_float8) {
  return in_float8 && fused.float8_linear ? fused.float8_linear(x, weight, bias, is_transposed)
                                          : plain_matmul(x, weight, bias, is_transposed);
}
}  // namespace detail

/// libtorch's modules.
namespace nn {
using namespace torch::nn;

/// Replaces libtorch's Linear with a layer whose GEMM adds the bias, as in Python. libtorch's own adds the bias in a
/// separate pass, which takes longer and rounds twice. Created by linear().
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  Tensor forward(const Tensor& x) { return adapted(gemm(x, bias), x); }
  /// x times the weight, plus `added`, which may be undefined.
  Tensor gemm(const Tensor& x, const Tensor& added) const {
    return detail::gemm(x, weight, added, /*is_transposed=*/false, in_float8);
  }
  /// Adds the adapter's output for x to `output`, if there is an adapter.
  Tensor adapted(const Tensor& output, const Tensor& x) const {
    return adapter ? output + adapter->forward(x) : output;
  }

  std::shared_ptr<Adapter> adapter;  // null if there is none
  bool in_float8 = false;            // whether bfloat16 GEMMs run in float8; set by the runtime
};
TORCH_MODULE(Linear);
}  // namespace nn

/// Creates a linear layer, x weightᵀ + bias, with an optional bias. The weight is [out_features, in_features].
inline nn::Linear linear(int64_t in_features, int64_t out_features, bool bias) {
  return nn::Linear(nn::LinearOptions(in_features, out_features).bias(bias));
}

/// A linear layer whose weight is stored as [in, out], as in GPT-2 (Hugging Face's Conv1D). It always has a bias.
class TransposedLinearImpl : public nn::Module {
 public:
  TransposedLinearImpl(int64_t in_features, int64_t out_features)
      : weight(register_parameter("weight", torch::empty({in_features, out_features}))),
        bias(register_parameter("bias", torch::empty({out_features}))) {}

  Tensor forward(const Tensor& x) { return adapted(gemm(x, bias), x); }
  /// x times the weight, plus `added`, which may be undefined.
  Tensor gemm(const Tensor& x, const Tensor& added) const {
    return detail::gemm(x, weight, added, /*is_transposed=*/true, in_float8);
  }
  /// Adds the adapter's output for x to `output`, if there is an adapter.
  Tensor adapted(const Tensor& output, const Tensor& x) const {
    return adapter ? output + adapter->forward(x) : output;
  }

  Tensor weight;                     // [in, out]
  Tensor bias;                       // [out]
  std::shared_ptr<Adapter> adapter;  // null if there is none
  bool in_float8 = false;            // whether bfloat16 GEMMs run in float8; set by the runtime
};
TORCH_MODULE(TransposedLinear);

/// Creates an embedding table [rows, dim]; the row of `padding_idx` gets no gradient.
inline nn::Embedding embedding(int64_t rows, int64_t dim, std::optional<int64_t> padding_idx) {
  return nn::Embedding(nn::EmbeddingOptions(rows, dim).padding_idx(padding_idx));
}

/// Creates a convolution that cuts images [images, channels, height, width] into square patches and projects each patch
/// (Dosovitskiy et al., ViT): [images, hidden_size, rows, columns].
inline nn::Conv2d patch_projection(int64_t channels, int64_t hidden_size, int64_t patch_size, bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(channels, hidden_size, patch_size).stride(patch_size).bias(bias));
}

}  // namespace modular
