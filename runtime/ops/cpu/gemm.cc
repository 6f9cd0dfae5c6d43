#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>

#include "runtime/model/parallel.h"
#include "runtime/ops/cpu/amx_kernel.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/replacements.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/replace_kernels.h"

namespace modular::cpu {

// AMX GEMM on tensors: the division of a result over threads.

#ifdef MODULAR_HAS_AMX
namespace {

char* scratch() {
  struct Free {
    void operator()(char* memory) const { std::free(memory); }
  };
  thread_local const std::unique_ptr<char, Free> memory(static_cast<char*>(std::aligned_alloc(64, kAmxScratch)));
  TORCH_CHECK(memory, "cannot allocate the panels of a GEMM");
  return memory.get();
}

int64_t panels(int64_t count) { return (count + kAmxPanel - 1) / kAmxPanel; }

/// Division of rows and columns over threads that minimizes packing.
struct Division {
  int64_t row_parts = 1, column_parts = 1;
};

Division divide(int64_t rows, int64_t columns, int64_t threads) {
  Division best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    if (threads % row_parts != 0) continue;
    const int64_t column_parts = threads / row_parts;
    const int64_t row_panels = (panels(rows) + row_parts - 1) / row_parts;
    const int64_t column_panels = (panels(columns) + column_parts - 1) / column_parts;
    // The work of the largest part first, then the panels that it packs.
    const int64_t cost = row_panels * column_panels * 1024 + row_panels + column_panels;
    if (cost < least) least = cost, best = {row_parts, column_parts};
  }
  return best;
}

/// Matrix `index` of a batch, or the only matrix. `row_dimension` is the dimension of rows.
template <class T>
MatrixOperand<T> operand(const at::Tensor& matrices, int64_t index, int64_t row_dimension) {
  const T* const first = read<T>(matrices) + (matrices.dim() == 3 ? index * matrices.stride(0) : 0);
  return {first, matrices.stride(row_dimension), matrices.stride(-3 - row_dimension)};
}

/// Returns whether both operands are finite, as far as that was checked.
template <class T>
bool multiply(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias, const at::Tensor& result) {
  const int64_t matrices = left.dim() == 3 ? left.size(0) : 1;
  const int64_t rows = left.size(-2), columns = right.size(-1), depth = left.size(-1);
  const auto make_problem = [&](int64_t index, float* sums) {
    return GemmProblem<T>{.rows = rows,
                          .columns = columns,
                          .depth = depth,
                          .left = operand<T>(left, index, -2),
                          .right = operand<T>(right, index, -1),
                          .bias = bias.defined() ? read<float>(bias) : nullptr,
                          .result = write<T>(result) + index * rows * columns,
                          .result_row = columns,
                          .sums = sums};
  };
  const Division division = divide(rows, columns, std::max<int64_t>(1, parallel_width() / matrices));
  const int64_t parts = division.row_parts * division.column_parts;
  const int64_t rows_each = (panels(rows) + division.row_parts - 1) / division.row_parts * kAmxPanel;
  const int64_t columns_each = (panels(columns) + division.column_parts - 1) / division.column_parts * kAmxPanel;
  std::atomic<bool> finite = true;
  const bool in_blocks = sizeof(T) < sizeof(float) && depth > amx_depth_block<T>();
  parallel_ranges(matrices * parts, 1, [&](int64_t first, int64_t last) {
    const at::Tensor sums = in_blocks ? at::empty({rows_each, kAmxSums}, at::kFloat) : at::Tensor();
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t row = piece % parts / division.column_parts * rows_each;
      const int64_t column = piece % division.column_parts * columns_each;
      const MatrixPart part = {row, std::min(rows, row + rows_each), column, std::min(columns, column + columns_each)};
      if (part.first_row >= part.last_row || part.first_column >= part.last_column) continue;
      if (!amx_multiply(make_problem(piece / parts, in_blocks ? write<float>(sums) : nullptr), part, scratch()))
        finite = false;
    }
  });
  return finite;
}

}  // namespace

at::Tensor amx_gemm(const at::Tensor& left, const at::Tensor& right, const at::Tensor& bias) {
  auto sizes = left.sizes().vec();
  sizes.back() = right.size(-1);
  at::Tensor result = at::empty(sizes, left.options());
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  const bool finite = with_element_type(
      left, [&](auto element) { return multiply<decltype(element)>(left, right, wide_bias, result); });
  return finite ? result : at::Tensor();
}
#else
at::Tensor amx_gemm(const at::Tensor&, const at::Tensor&, const at::Tensor&) {
  TORCH_INTERNAL_ASSERT(false, "built without AMX");
}
#endif

namespace {

using at::Tensor;

/// Minimum number of weight elements per thread.
constexpr int64_t kWeightsPerThread = 32768;

bool is_skinny(const Tensor& left, const Tensor& right) {
  // Checks for a cache, not only for the absence of a graph: the first forward of a recomputed unit has no graph
  // either, and must match the second.
  if (!bound.cache || at::GradMode::is_enabled() || left.dim() != 2 || right.dim() != 2) return false;
  const auto type = left.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && right.scalar_type() == type && left.size(0) > 0 &&
         left.size(0) <= kSkinnyRows && left.size(1) == right.size(0) && right.size(1) > 0 && left.size(1) > 0 &&
         left.size(1) % kSkinnyStep == 0 && left.stride(1) == 1 && right.stride(0) == 1 &&
         right.stride(1) == right.size(0);
}

}  // namespace

Tensor skinny_gemm(const Tensor& left, const Tensor& right) {
  if (!is_skinny(left, right)) return {};
  const int64_t rows = left.size(0), features = left.size(1), outputs = right.size(1);
  const Tensor result = at::empty({rows, outputs}, left.options());
  const Tensor packed = at::empty({kSkinnyRows, features}, left.options().dtype(at::kFloat));
  with_element_type(left, [&](auto element) {
    using T = decltype(element);
    const SkinnyGemmKernels<T>& kernels = skinny_gemm_kernels<T>();
    kernels.pack(read<T>(left), left.stride(0), write<float>(packed), rows, features);
    parallel_ranges(outputs, std::max<int64_t>(1, kWeightsPerThread / features), [&](int64_t first, int64_t last) {
      kernels.multiply(read<float>(packed), read<T>(right), write<T>(result), outputs, rows, features, first, last);
    });
  });
  return result;
}

}  // namespace modular::cpu

// Selection of the GEMM backend on CPUs. libtorch uses MKL for all float32 GEMMs, and MKL reserves its AVX-512 kernels
// for Intel CPUs: on AMD CPUs, oneDNN, which libtorch also contains, is twice as fast. On CPUs with AMX our own kernels
// are half as fast again as either (benchmarks/gemm.cc); for bfloat16, where oneDNN uses AMX too, they are a little
// faster.

namespace at::native {
/// libtorch's internal entry to oneDNN for bfloat16: result = beta * result + alpha * left @ right, each operand row-
/// or column-major. No shipped header declares it, so a libtorch without this symbol counts as one without oneDNN.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace modular::cpu {
namespace {

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
