// A submodule whose class depends on the config, as `self.mlp = A(config) if … else B(config)` in Python.
#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <variant>

#include "runtime/model/module.h"

namespace modular {

/// Holds one of the alternatives, which are all holders (TORCH_MODULE), or nothing. Assign the result of
/// register_module. It is called like a holder: every alternative's forward takes the same arguments and returns the
/// same type.
template <class First, class... Others>
class OneOf {
  template <class Impl>
  static constexpr bool holds =
      std::same_as<Impl, typename First::ContainedType> || (std::same_as<Impl, typename Others::ContainedType> || ...);

 public:
  /*implicit*/ OneOf(std::nullptr_t) {}
  template <class Impl>
    requires holds<Impl>
  /*implicit*/ OneOf(std::shared_ptr<Impl> module) : module_(nn::ModuleHolder<Impl>(std::move(module))) {}

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) {
    using Result = decltype(std::declval<First&>()->forward(std::forward<Arguments>(arguments)...));
    return std::visit(
        [&](auto& module) -> Result {
          if constexpr (std::same_as<std::remove_reference_t<decltype(module)>, std::monostate>) {
            TORCH_CHECK(false, "this OneOf holds no module");
          } else {
            return module->forward(std::forward<Arguments>(arguments)...);
          }
        },
        module_);
  }

  /// The module if it is a `Holder`, else null.
  template <class Holder>
  typename Holder::ContainedType* get() {
    auto* found = std::get_if<nn::ModuleHolder<typename Holder::ContainedType>>(&module_);
    return found ? found->get() : nullptr;
  }
  explicit operator bool() const { return !std::holds_alternative<std::monostate>(module_); }

 private:
  std::variant<std::monostate, nn::ModuleHolder<typename First::ContainedType>,
               nn::ModuleHolder<typename Others::ContainedType>...>
      module_;
};

}  // namespace modular
