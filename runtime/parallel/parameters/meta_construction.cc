#include "runtime/parallel/parameters/meta_construction.h"

#include <fmt/format.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace modular {
namespace {

constexpr auto kMetaMode = c10::DispatchKey::TESTING_ONLY_GenericMode;

void construct_on_meta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard outside(kMetaMode);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == "device") (*stack)[stack->size() - arguments.size() + i] = at::Device(at::kMeta);
  op.callBoxed(stack);
}

// No other code uses this mode key: it is off unless build_on_meta includes it.
TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&construct_on_meta>());
}

}  // namespace

Model build_on_meta(const Entry& entry, const AnyConfig& config) {
  c10::impl::IncludeDispatchKeyGuard inside(kMetaMode);
  try {
    return entry.make(config);
  } catch (const c10::Error& error) {
    const std::string problem = error.what_without_backtrace();
    throw ConfigError(
        fmt::format("cannot build {} from its config: {}", entry.architecture, problem.substr(0, problem.find('\n'))));
  }
}

void make_real(at::Tensor& parameter, const at::Tensor& real) {
  TORCH_INTERNAL_ASSERT(parameter.is_meta());
  // set_data rejects a tensor of a different backend, so the backend is changed first. Nothing has read the parameter
  // yet.
  parameter.unsafeGetTensorImpl()->_change_backend_component_keys(real.device());
  parameter.set_data(real);
}

}  // namespace modular
