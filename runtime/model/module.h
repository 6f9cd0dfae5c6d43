// Base of the module classes of models, lists of modules, and parameter tying.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/init.h"
#include "runtime/model/linear.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Base of every model class.
class Module : public nn::Module {
 public:
  Module() = default;
  /// `initial_std` is the standard deviation of the initial weights.
  explicit Module(double initial_std) : initial_std_(initial_std) {}

  /// Initializes the class's own parameters and those of its libtorch children (Linear, Embedding, Conv2d) through
  /// `init::`. Children that are Modules initialize themselves. Constructors never read or write a tensor's values.
  /// Without an override: the children's weights from N(0, initial_std), their biases to 0.
  virtual void reset_parameters() {
    if (initial_std_) init::linear_and_embedding_(*this, *initial_std_);
  }

 protected:
  /// The standard deviation that the constructor was given.
  double initial_std() const {
    TORCH_CHECK(initial_std_, "initial_std(): the constructor passed none to Module");
    return *initial_std_;
  }

 private:
  std::optional<double> initial_std_;
};

namespace init {
/// Calls reset_parameters() of every model class in `root`, outermost first.
inline void reset(nn::Module& root) {
  for (const auto& module : root.modules())
    if (auto* model_class = dynamic_cast<Module*>(module.get())) model_class->reset_parameters();
}
}  // namespace init

/// Implementation of ModuleListOf: modules registered as "0", "1", …, like Python's nn.ModuleList.
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
  /// The global index of an element, counted over all pipeline stages: the layer index of a loop over the list.
  int64_t index_of(const Holder& element) const {
    const auto is_same = [&](const Holder& module) { return module.ptr() == element.ptr(); };
    const auto found = std::find_if(modules_.begin(), modules_.end(), is_same);
    TORCH_CHECK(found != modules_.end(), "index_of: the module is not an element of this list");
    return found - modules_.begin();
  }

 private:
  std::vector<Holder> modules_;
};

/// A list of modules of one class, `Holder`. Its implementation's begin(), size() and so on are reached by *list and
/// list->.
template <class Holder>
class ModuleListOf : public nn::ModuleHolder<ModuleListOfImpl<Holder>> {
 public:
  using nn::ModuleHolder<ModuleListOfImpl<Holder>>::ModuleHolder;
};

namespace detail {
// A derived class may name protected members of its base; tie_parameter uses this to reach the registry that libtorch
// keeps protected.
struct ModuleRegistry : nn::Module {
  static torch::OrderedDict<std::string, Tensor>& get_parameters(nn::Module& module) {
    return module.*(&ModuleRegistry::parameters_);
  }
};
}  // namespace detail

/// Makes `parameter`, which `owner` registers, the same tensor as `source`, both in the member and in the registry.
inline void tie_parameter(nn::Module& owner, Tensor& parameter, const Tensor& source) {
  for (auto& item : detail::ModuleRegistry::get_parameters(owner)) {
    if (item.value().is_same(parameter)) {
      item.value() = source;
      parameter = source;
      return;
    }
  }
  TORCH_CHECK(false, "tie_parameter: the given owner does not register this parameter");
}

}  // namespace modular
