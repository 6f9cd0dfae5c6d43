#include "runtime/train/deterministic.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

namespace modular {
namespace {

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";

}  // namespace

std::string deterministic_error() {
  const char* const workspace = std::getenv(kWorkspace);
  if (!workspace || std::string_view(workspace) == ":4096:8" || std::string_view(workspace) == ":16:8") return {};
  return fmt::format(
      "train.deterministic: {} is \"{}\", with which cuBLAS does not repeat its results: unset it, or set it to "
      ":4096:8",
      kWorkspace, workspace);
}

void be_deterministic(const at::Device& device) {
  if (device.is_cpu()) return;
  setenv(kWorkspace, ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // nothing here reads uninitialized memory
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

}  // namespace modular
