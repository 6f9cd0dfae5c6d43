#pragma once

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <utility>

namespace modular {

/// Calls `impl` to register kernels that replace libtorch's own on CPUs, or for the dispatch key `key`, for the rest of
/// the program. Calling it again from the same source location does nothing: each lambda `impl` has a type of its own.
template <class Impl>
void replace_kernels(Impl&& impl, c10::DispatchKey key = c10::DispatchKey::CPU) {
  static const torch::Library library = [&] {
    // Silences libtorch's warning that a kernel is overridden, which is intended.

    struct Silence final : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } silence;
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    torch::Library replacing(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    std::forward<Impl>(impl)(replacing);
    return replacing;
  }();
}

}  // namespace modular
