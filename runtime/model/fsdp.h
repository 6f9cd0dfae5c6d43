// Units of parameter sharding (Zhao et al., PyTorch FSDP; Rajbhandari et al., ZeRO) and of activation recomputation
// (Chen et al.). modgen wraps a unit's forward in `unit`; without a runtime it is a plain call.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/model/module.h"
#include "runtime/model/parallel.h"

namespace modular::fsdp {

/// Runtime interface that gathers a unit's parameters around its forward and backward, and may recompute the unit.
class Units {
 public:
  using Body = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
  virtual ~Units() = default;
  /// Runs `body(inputs)` as the forward of `unit`. `inputs` are all tensors that flow in. Apart from the unit's own
  /// parameters, `body` depends on nothing else that needs a gradient, so the backward may run it again.
  virtual std::vector<Tensor> run(nn::Module& unit, const std::vector<Tensor>& inputs, const Body& body) = 0;
};

/// Calls `(self.*forward)(arguments…)` as one unit. Arguments are held by value; tensors inside them (Batch, tuples)
/// count as inputs.
template <class Self, class Result, class... Parameters, class... Arguments>
Result unit(Self& self, Result (Self::*forward)(Parameters...), Arguments&&... arguments) {
  if (!bound.units) return (self.*forward)(std::forward<Arguments>(arguments)...);

  auto held = std::make_shared<std::tuple<std::decay_t<Parameters>...>>(std::forward<Arguments>(arguments)...);
  std::vector<Tensor> inputs;
  for_each_tensor(*held, [&](Tensor& tensor) {
    if (tensor.defined()) inputs.push_back(tensor);
    tensor = tensor.defined() ? tensor.detach() : tensor;  // so that `held` keeps no graph alive
  });

  // The result without its tensors. Those go to the runtime and are not kept here: a recomputation would keep its graph
  // alive.
  struct Shell {
    std::optional<Result> value;
    std::vector<bool> defined;
  };
  auto shell = std::make_shared<Shell>();
  auto outputs = bound.units->run(self, inputs, [&self, forward, held, shell](const std::vector<Tensor>& given) {
    auto call = *held;
    size_t next = 0;
    for_each_tensor(call, [&](Tensor& tensor) {
      if (tensor.defined()) tensor = given[next++];
    });
    Result value = std::apply([&](auto&... argument) { return (self.*forward)(argument...); }, call);
    std::vector<Tensor> tensors;
    shell->defined.clear();
    for_each_tensor(value, [&](Tensor& tensor) {
      shell->defined.push_back(tensor.defined());
      if (tensor.defined()) tensors.push_back(std::move(tensor));
    });
    shell->value = std::move(value);
    return tensors;
  });

  Result value = std::move(*shell->value);
  size_t position = 0, next = 0;
  for_each_tensor(value, [&](Tensor& tensor) {
    if (shell->defined[position++]) tensor = std::move(outputs[next++]);
  });
  return value;
}

}  // namespace modular::fsdp
