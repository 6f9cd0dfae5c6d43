// Headers from outside the runtime that nearly all of its files include, compiled once.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/ir/attributes.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

// Each file that includes these headers instantiates the virtual functions of their templates, which takes a second,
// but for those that a precompiled header itself names. These functions are never called.
namespace modular::precompiled {

template <class... Attributes>
void instantiate_clones(const Attributes&... attributes) {
  (void(attributes.Attributes::clone()), ...);
}

template <class... Types>
void instantiate_comparisons(const Types&... types) {
  (void(types.Types::equals(types)), ...);
  (void(types.Types::containedTypes()), ...);
}

template <class... Layers>
void instantiate_layers(Layers&... layers) {
  (layers.Layers::clone(), ...);
  (layers.Layers::reset(), ...);
  (layers.Layers::pretty_print(std::cerr), ...);
}

inline void instantiate(const torch::jit::FloatAttr& real, const torch::jit::FloatsAttr& reals,
                        const torch::jit::ComplexAttr& complex, const torch::jit::ComplexValsAttr& complexes,
                        const torch::jit::StringsAttr& strings, const torch::jit::IntsAttr& integers,
                        const torch::jit::TypesAttr& types, const torch::jit::TensorsAttr& tensors) {
  instantiate_clones(real, reals, complex, complexes, strings, integers, types, tensors);
}

inline void instantiate(const c10::ListType& list, const c10::FutureType& future, const c10::AwaitType& awaited,
                        const c10::RRefType& remote) {
  instantiate_comparisons(list, future, awaited, remote);
}

inline void instantiate(torch::nn::Conv1dImpl& conv1, torch::nn::Conv2dImpl& conv2, torch::nn::Conv3dImpl& conv3,
                        torch::nn::ConvTranspose1dImpl& transpose1, torch::nn::ConvTranspose2dImpl& transpose2,
                        torch::nn::ConvTranspose3dImpl& transpose3, torch::nn::EmbeddingImpl& embedding,
                        torch::nn::EmbeddingBagImpl& bag, torch::nn::LinearImpl& linear,
                        torch::nn::UnflattenImpl& unflatten, torch::nn::BilinearImpl& bilinear) {
  instantiate_layers(conv1, conv2, conv3, transpose1, transpose2, transpose3, embedding, bag, linear, unflatten,
                     bilinear);
}

/// Methods that transposed convolutions override.
inline void instantiate(torch::nn::ConvNdImpl<1, torch::nn::ConvTranspose1dImpl>& transpose1,
                        torch::nn::ConvNdImpl<2, torch::nn::ConvTranspose2dImpl>& transpose2,
                        torch::nn::ConvNdImpl<3, torch::nn::ConvTranspose3dImpl>& transpose3) {
  instantiate_layers(transpose1, transpose2, transpose3);
}

/// For private members, which only an explicit instantiation may name.
template <auto member>
void instantiate_member() {}

template void instantiate_member<&torch::nn::Cloneable<torch::nn::Conv1dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::Conv2dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::Conv3dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::ConvTranspose1dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::ConvTranspose2dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::ConvTranspose3dImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::EmbeddingImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::EmbeddingBagImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::LinearImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::UnflattenImpl>::clone_>();
template void instantiate_member<&torch::nn::Cloneable<torch::nn::BilinearImpl>::clone_>();

}  // namespace modular::precompiled
