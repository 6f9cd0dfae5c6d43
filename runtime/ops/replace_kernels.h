#pragma once

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <utility>

namespace modular {

/// Has `impl` register kernels in place of libtorch's own on CPUs or on what `key` names, for the rest of the program.
/// Once for each `impl`: callers keep what is returned, true, in a static.
template <class Impl>
bool replace_kernels(Impl&& impl, c10::DispatchKey key = c10::DispatchKey::CPU) {
  // libtorch warns that a kernel of its own is replaced, which is meant.
  struct Silence final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silence;
  const c10::WarningUtils::WarningHandlerGuard guard(&silence);
  static torch::Library library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  std::forward<Impl>(impl)(library);
  return true;
}

}  // namespace modular
