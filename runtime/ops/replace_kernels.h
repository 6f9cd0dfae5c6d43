#pragma once

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <utility>

namespace modular {

/// Has `impl` register kernels in place of libtorch's own on CPUs or on what `key` names, for the rest of the program.
/// Calling it again from the same place does nothing: `impl` is a lambda, of a type that no other place has.
template <class Impl>
void replace_kernels(Impl&& impl, c10::DispatchKey key = c10::DispatchKey::CPU) {
  static const torch::Library library = [&] {
    // libtorch warns that a kernel of its own is replaced, which is meant.
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
