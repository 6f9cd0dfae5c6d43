// Which library multiplies float32 matrices on CPUs. libtorch asks MKL for all such products, and MKL keeps its kernels
// for AVX-512 to Intel's processors. On AMD's, oneDNN, which libtorch has too, is twice as fast (benchmarks/products).
#include "runtime/ops/cpu/products.h"

#include <ATen/CPUFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <cstdlib>
#include <optional>

#include "runtime/ops/cpu/replace_kernels.h"

namespace at::native {
/// libtorch's own way to oneDNN for bfloat16: result = beta * result + alpha * left @ right, each operand in rows or in
/// columns. No header that is shipped declares it, so a libtorch that has it no longer is one without oneDNN to us.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace modular::cpu {
namespace {

using at::Tensor;

/// The smallest product for which oneDNN's longer way to its kernel is made up for on any processor.
constexpr int64_t kFewestMultiplications = int64_t{1} << 22;

bool suits_onednn(const Tensor& left, const Tensor& right) {
  return left.scalar_type() == at::kFloat && right.scalar_type() == at::kFloat && left.dim() == 2 && right.dim() == 2 &&
         left.size(1) == right.size(0) && left.size(0) > 1 && right.size(1) > 1 &&
         left.size(0) * left.size(1) * right.size(1) >= kFewestMultiplications;
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

/// A layer with a bias, which oneDNN adds while it writes the product.
Tensor addmm(const Tensor& bias, const Tensor& left, const Tensor& right, const at::Scalar& beta,
             const at::Scalar& alpha) {
  static const auto linear = find_linear()->typed<Linear>();
  const bool is_layer = suits_onednn(left, right) && bias.scalar_type() == at::kFloat && bias.dim() == 1 &&
                        bias.is_contiguous() && bias.size(0) == right.size(1) && left.is_contiguous() &&
                        beta.equal(1) && alpha.equal(1);
  if (!is_layer) return at::cpu::addmm(bias, left, right, beta, alpha);
  return linear.call(left, right.t(), bias, "none", Scalars(), std::nullopt);
}

/// What oneDNN's way asks of a processor, and whether it is the faster one there.
enum class Suits { no, yes, best };

Suits processor_suits() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
    return Suits::no;
  return __builtin_cpu_is("amd") ? Suits::best : Suits::yes;
#else
  return Suits::no;
#endif
}

bool takes_onednn() {
  if (!at::native::mkldnn_matmul || !find_linear()) return false;
  const char* const asked = std::getenv("MODULAR_CPU_PRODUCTS");
  const Suits suits = processor_suits();
  if (asked && std::string_view(asked) == "mkl") return false;
  if (asked && std::string_view(asked) == "onednn") return suits != Suits::no;
  return suits == Suits::best;
}

bool install() {
  return takes_onednn() && replace_kernels([](torch::Library& library) {
           library.impl("mm", mm);
           library.impl("addmm", addmm);
         });
}

bool by_onednn() {
  static const bool installed = install();
  return installed;
}

}  // namespace

void install_products() { by_onednn(); }

std::string_view products_library() { return by_onednn() ? "oneDNN" : "MKL"; }

}  // namespace modular::cpu
