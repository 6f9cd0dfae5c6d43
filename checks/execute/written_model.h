// The classes of a spec as C++ compiles them, next to the generated ones. The program of a family includes this;
// checks/written_text.h writes what names their members.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include "checks/execute/family_program.h"
#include "modular/modular.h"

namespace modular {

template <class Contained>
template <class... Arguments, class Held>
auto EarlyHolder<Contained>::operator()(Arguments&&... arguments)
    -> decltype(std::declval<Held&>().forward(std::forward<Arguments>(arguments)...)) {
  return this->get()->forward(std::forward<Arguments>(arguments)...);
}

}  // namespace modular

namespace modular::execute {

/// Parameters and buffers that written modules have taken over.
using Adopted = std::set<const at::TensorImpl*>;

/// Gives `to`, a member of a written module, the tensors of `from`, the same member of the generated module. Members
/// that hold no tensors stay as constructed. adopt_members(to, from, adopted) does so for the members of a module.
template <class To, class From>
void adopt(To& to, From& from, Adopted& adopted) {
  constexpr bool are_holders = std::is_base_of_v<torch::detail::ModuleHolderIndicator, To> &&
                               std::is_base_of_v<torch::detail::ModuleHolderIndicator, From>;
  if constexpr (std::is_same_v<To, Tensor> && std::is_same_v<From, Tensor>) {
    to = from;
    if (from.defined()) adopted.insert(from.unsafeGetTensorImpl());
  } else if constexpr (are_holders && std::is_same_v<To, From>) {
    to = from;
    if (from.is_empty()) return;
    for (const Tensor& tensor : from->parameters()) adopted.insert(tensor.unsafeGetTensorImpl());
    for (const Tensor& tensor : from->buffers()) adopted.insert(tensor.unsafeGetTensorImpl());
  } else if constexpr (are_holders) {
    if (from.is_empty() || to.is_empty()) return;
    if constexpr (requires { (*to)[size_t{0}], (*from)[size_t{0}]; }) {
      for (size_t index = 0; index < std::min(to->size(), from->size()); ++index)
        adopt((*to)[index], (*from)[index], adopted);
    } else if constexpr (requires { adopt_members(*to, *from, adopted); }) {
      adopt_members(*to, *from, adopted);
      to->eval();
    }
  }
}

/// Gives `to`, a field of the spec's config, the value of `from`. adopt_fields(to, from) does so for nested configs.
template <class To, class From>
void adopt_value(To& to, const From& from) {
  if constexpr (std::is_same_v<To, From>)
    to = from;
  else
    adopt_fields(to, from);
}

/// An entry of the generated class `Impl` and the spec's class `Written`, with their configs.
template <class Config, class Impl, class WrittenConfig, class Written>
WrittenEntry written_entry(std::string_view architecture, std::string_view task) {
  return {architecture, task,
          [](const AnyConfig& config, nn::Module& generated, const Batch& batch) -> std::optional<Outputs> {
            const auto* given = dynamic_cast<const ConfigOf<Config>*>(&config);
            auto* module = dynamic_cast<Impl*>(&generated);
            if (!given || !module) return {};
            WrittenConfig own;
            adopt_fields(own, given->value);
            const auto written = std::make_shared<Written>(own);
            Adopted adopted;
            adopt_members(*written, *module, adopted);
            for (const auto& tensors : {generated.parameters(), generated.buffers()})
              for (const Tensor& tensor : tensors)
                if (!adopted.contains(tensor.unsafeGetTensorImpl())) return {};
            written->eval();
            return written->forward(batch);
          }};
}

}  // namespace modular::execute
