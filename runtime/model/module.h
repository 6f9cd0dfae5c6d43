// The module classes that models are made of beside libtorch's own, and tying of parameters.
#pragma once

#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/fused.h"
#include "runtime/model/tensors.h"

namespace modular {

/// What the runtime has a linear layer add to its product, as LoRA does.
class Adapter {
 public:
  virtual ~Adapter() = default;
  /// - x [..., in]: this rank's features, where the layer is split by them
  /// - returns [..., out]: this rank's features, or this rank's part of the sum, as the layer's product is
  virtual Tensor forward(const Tensor& x) = 0;
};

namespace detail {
/// x times a weight [out, in] or, where `is_transposed`, [in, out], plus a bias, which may be undefined.
inline Tensor plain_matmul(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed) {
  if (!is_transposed) return at::linear(x, weight, bias);
  if (!bias.defined()) return at::matmul(x, weight);
  return at::addmm(bias, x.flatten(0, -2), weight).unflatten(0, x.sizes().slice(0, x.dim() - 1));
}

/// The same in float8 where `in_float8` and the program has it.
inline Tensor product(const Tensor& x, const Tensor& weight, const Tensor& bias, bool is_transposed, bool in_float8) {
  return in_float8 && fused.float8_linear ? fused.float8_linear(x, weight, bias, is_transposed)
                                          : plain_matmul(x, weight, bias, is_transposed);
}
}  // namespace detail

/// libtorch's modules.
namespace nn {
using namespace torch::nn;

/// In the place of libtorch's Linear one whose product adds the bias, as in Python: libtorch's own adds it in a pass of
/// its own, which takes longer and rounds twice. linear() makes it.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  Tensor forward(const Tensor& x) { return adapted(product(x, bias), x); }
  /// x times the weight, plus a bias, which may be undefined.
  Tensor product(const Tensor& x, const Tensor& added) const {
    return detail::product(x, weight, added, /*is_transposed=*/false, in_float8);
  }
  /// The product of x with what the runtime adds to it.
  Tensor adapted(const Tensor& product, const Tensor& x) const {
    return adapter ? product + adapter->forward(x) : product;
  }

  std::shared_ptr<Adapter> adapter;  // null: none
  bool in_float8 = false;            // the product of bfloat16, as the runtime says
};
TORCH_MODULE(Linear);
}  // namespace nn

/// Base of every model class.
class Module : public nn::Module {
 public:
  /// Initializes the class's own parameters and those of its libtorch children (Linear, Embedding, Conv2d) through
  /// `init::`. Children that are Modules initialize themselves. Constructors never read or write a tensor's values.
  virtual void reset_parameters() {}
};

/// A linear layer, x weightᵀ + bias, with or without the bias. The weight is [out_features, in_features].
inline nn::Linear linear(int64_t in_features, int64_t out_features, bool bias) {
  return nn::Linear(nn::LinearOptions(in_features, out_features).bias(bias));
}

/// A linear layer whose weight is stored as [in, out], as GPT-2 stores it (Hugging Face's Conv1D). Always with a bias.
class TransposedLinearImpl : public nn::Module {
 public:
  TransposedLinearImpl(int64_t in_features, int64_t out_features)
      : weight(register_parameter("weight", torch::empty({in_features, out_features}))),
        bias(register_parameter("bias", torch::empty({out_features}))) {}

  Tensor forward(const Tensor& x) { return adapted(product(x, bias), x); }
  /// x times the weight, plus a bias, which may be undefined.
  Tensor product(const Tensor& x, const Tensor& added) const {
    return detail::product(x, weight, added, /*is_transposed=*/true, in_float8);
  }
  /// The product of x with what the runtime adds to it.
  Tensor adapted(const Tensor& product, const Tensor& x) const {
    return adapter ? product + adapter->forward(x) : product;
  }

  Tensor weight;                     // [in, out]
  Tensor bias;                       // [out]
  std::shared_ptr<Adapter> adapter;  // null: none
  bool in_float8 = false;            // the product of bfloat16, as the runtime says
};
TORCH_MODULE(TransposedLinear);

/// An embedding table [rows, dim]; the row of `padding_idx` gets no gradient.
inline nn::Embedding embedding(int64_t rows, int64_t dim, std::optional<int64_t> padding_idx) {
  return nn::Embedding(nn::EmbeddingOptions(rows, dim).padding_idx(padding_idx));
}

/// A convolution that cuts images [images, channels, height, width] into square patches and projects each (Dosovitskiy
/// et al., ViT): [images, hidden_size, rows, columns].
inline nn::Conv2d patch_projection(int64_t channels, int64_t hidden_size, int64_t patch_size, bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(channels, hidden_size, patch_size).stride(patch_size).bias(bias));
}

/// What a ModuleListOf holds: modules registered as "0", "1", …, like Python's nn.ModuleList.
template <class Holder>
class ModuleListOfImpl : public nn::Module {
 public:
  void push_back(Holder module) {
    register_module(std::to_string(modules_.size()), module);
    modules_.push_back(std::move(module));
  }
  auto begin() { return modules_.begin(); }
  auto end() { return modules_.end(); }
  Holder& operator[](size_t index) { return modules_[index]; }
  size_t size() const { return modules_.size(); }
  /// The place of an element, counted over the stages of a pipeline: which layer a walk over the list is at.
  int64_t index_of(const Holder& element) const {
    const auto is_it = [&](const Holder& one) { return one.ptr() == element.ptr(); };
    const auto found = std::find_if(modules_.begin(), modules_.end(), is_it);
    TORCH_CHECK(found != modules_.end(), "index_of: this is no element of the list");
    return found - modules_.begin();
  }

 private:
  std::vector<Holder> modules_;
};

/// A list of modules of one class, `Holder`: begin(), size() and the like are its implementation's, reached by *list
/// and list->.
template <class Holder>
class ModuleListOf : public nn::ModuleHolder<ModuleListOfImpl<Holder>> {
 public:
  using nn::ModuleHolder<ModuleListOfImpl<Holder>>::ModuleHolder;
};

namespace detail {
// A class may name its bases' protected members; this lets tie_parameter reach the registry that libtorch keeps
// protected.
struct ModuleRegistry : nn::Module {
  static torch::OrderedDict<std::string, Tensor>& get_parameters(nn::Module& module) {
    return module.*(&ModuleRegistry::parameters_);
  }
};
}  // namespace detail

/// Makes `parameter`, which `owner` registers, the same tensor as `source`, in the member and in the registry alike.
inline void tie_parameter(nn::Module& owner, Tensor& parameter, const Tensor& source) {
  for (auto& item : detail::ModuleRegistry::get_parameters(owner)) {
    if (item.value().is_same(parameter)) {
      item.value() = source;
      parameter = source;
      return;
    }
  }
  TORCH_CHECK(false, "tie_parameter: the parameter is not registered by the module that was named as its owner");
}

}  // namespace modular
