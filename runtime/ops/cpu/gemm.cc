// Selection of the GEMM backend on CPUs. libtorch uses MKL for all float32 GEMMs, and MKL reserves its AVX-512 kernels
// for Intel CPUs: on AMD CPUs, oneDNN, which libtorch also contains, is twice as fast. On CPUs with AMX our own kernels
// are half as fast again as either (benchmarks/products.cc); for bfloat16, where oneDNN uses AMX too, they are a little
// faster.
#include "runtime/ops/cpu/gemm.h"

#include <ATen/CPUFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <cstdlib>
#include <optional>

#include "runtime/ops/cpu/amx_gemm.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/skinny_gemm.h"
#include "runtime/ops/replace_kernels.h"

namespace at::native {
/// libtorch's internal entry to oneDNN for bfloat16: result = beta * result + alpha * left @ right, each operand row-
/// or column-major. No shipped header declares it, so a libtorch without this symbol counts as one without oneDNN.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace modular::cpu {
namespace {

using at::Tensor;

/// The smallest GEMM for which oneDNN's higher call overhead pays off on any CPU.
constexpr int64_t kFewestMultiplications = int64_t{1} << 22;

bool is_large(const Tensor& left, const Tensor& right, at::ScalarType type) {
  return left.scalar_type() == type && right.scalar_type() == type && left.dim() == right.dim() &&
         left.size(-1) == right.size(-2) && left.size(-2) > 1 && right.size(-1) > 1 &&
         left.numel() * right.size(-1) >= kFewestMultiplications;
}

bool suits_onednn(const Tensor& left, const Tensor& right) {
  return left.dim() == 2 && right.dim() == 2 && is_large(left, right, at::kFloat);
}

Tensor mm(const Tensor& left, const Tensor& right) {
  if (!suits_onednn(left, right)) return at::cpu::mm(left, right);
  Tensor result = at::empty({left.size(0), right.size(1)}, left.options());
  at::native::mkldnn_matmul(left, right, result, /*beta=*/0.0F, /*alpha=*/1.0F);
  return result;
}

using Scalars = c10::List<std::optional<at::Scalar>>;
using Linear = Tensor(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias, std::string_view after,
                      Scalars, std::optional<std::string_view>);

std::optional<c10::OperatorHandle> find_linear() {
  return c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
}

bool is_layer_bias(const Tensor& bias, const Tensor& right) {
  return bias.scalar_type() == right.scalar_type() && bias.dim() == 1 && bias.is_contiguous() &&
         bias.size(0) == right.size(1);
}

/// A linear layer whose bias oneDNN adds while it writes the result.
Tensor addmm(const Tensor& bias, const Tensor& left, const Tensor& right, const at::Scalar& beta,
             const at::Scalar& alpha) {
  static const auto linear = find_linear()->typed<Linear>();
  const bool is_layer = suits_onednn(left, right) && is_layer_bias(bias, right) && left.is_contiguous() &&
                        beta.equal(1) && alpha.equal(1);
  if (!is_layer) return at::cpu::addmm(bias, left, right, beta, alpha);
  return linear.call(left, right.t(), bias, "none", Scalars(), std::nullopt);
}

bool is_dense(const Tensor& matrices) { return matrices.stride(-2) == 1 || matrices.stride(-1) == 1; }

/// For matrices or equal batches of matrices. Thin matrices leave most of a tile empty.
bool suits_amx(const Tensor& left, const Tensor& right, int64_t dimensions) {
  return left.dim() == dimensions && right.dim() == dimensions &&
         (is_large(left, right, at::kFloat) || is_large(left, right, at::kBFloat16)) && left.size(-2) >= 32 &&
         right.size(-1) >= 32 && left.size(-1) >= 32 && is_dense(left) && is_dense(right) &&
         (dimensions == 2 || left.size(0) == right.size(0));
}

using Mm = Tensor (*)(const Tensor&, const Tensor&);

template <int64_t dimensions, Mm fallback>
Tensor amx_or_fallback(const Tensor& left, const Tensor& right) {
  Tensor result = suits_amx(left, right, dimensions) ? amx_gemm(left, right, Tensor()) : Tensor();
  return result.defined() ? result : fallback(left, right);
}

Tensor amx_addmm(const Tensor& bias, const Tensor& left, const Tensor& right, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  if (suits_amx(left, right, 2) && is_layer_bias(bias, right) && beta.equal(1) && alpha.equal(1))
    if (Tensor result = amx_gemm(left, right, bias); result.defined()) return result;
  return at::cpu::addmm(bias, left, right, beta, alpha);
}

enum class Library { mkl, onednn, amx };

bool has_avx512() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

Library choose_library() {
  const bool has_onednn = at::native::mkldnn_matmul && find_linear() && has_avx512();
  const char* const requested = std::getenv("MODULAR_CPU_GEMM");
  const std::string_view wish = requested ? requested : "";
  if (wish == "mkl") return Library::mkl;
  if (wish == "onednn" && has_onednn) return Library::onednn;
  if (amx_present()) return Library::amx;
  return has_onednn && is_amd() ? Library::onednn : Library::mkl;
}

using Addmm = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const at::Scalar&, const at::Scalar&);

/// A skinny GEMM for the few rows of generation, else the backend's GEMM.
template <Mm fallback>
Tensor mm_or_skinny_gemm(const Tensor& left, const Tensor& right) {
  Tensor result = skinny_gemm(left, right);
  return result.defined() ? result : fallback(left, right);
}

template <Addmm fallback>
Tensor addmm_or_skinny_gemm(const Tensor& bias, const Tensor& left, const Tensor& right, const at::Scalar& beta,
                            const at::Scalar& alpha) {
  // A bfloat16 sum would be rounded twice.
  if (is_layer_bias(bias, right) && bias.scalar_type() == at::kFloat && beta.equal(1) && alpha.equal(1))
    if (Tensor result = skinny_gemm(left, right); result.defined()) return result.add_(bias);
  return fallback(bias, left, right, beta, alpha);
}

template <Mm mm, Addmm addmm>
void install(torch::Library& library) {
  library.impl("mm", mm_or_skinny_gemm<mm>);
  library.impl("addmm", addmm_or_skinny_gemm<addmm>);
}

Library install() {
  const Library chosen = choose_library();
  replace_kernels([&](torch::Library& library) {
    if (chosen == Library::amx) {
      library.impl("bmm", amx_or_fallback<3, at::cpu::bmm>);
      return install<amx_or_fallback<2, at::cpu::mm>, amx_addmm>(library);
    }
    if (chosen == Library::onednn) return install<mm, addmm>(library);
    install<at::cpu::mm, at::cpu::addmm>(library);
  });
  return chosen;
}

Library installed() {
  static const Library library = install();
  return library;
}

}  // namespace

void install_gemm() { installed(); }

std::string_view gemm_backend() {
  switch (installed()) {
    case Library::amx:
      return "AMX";
    case Library::onednn:
      return "oneDNN";
    case Library::mkl:
      break;
  }
  return "MKL";
}

}  // namespace modular::cpu
