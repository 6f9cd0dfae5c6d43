#include "runtime/ops/cuda/operations.h"

#include "runtime/model/tensors.h"
#include "runtime/ops/adamw.h"
#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/cuda/tensors.h"
#include "runtime/ops/operations.h"

// The fused operations on CUDA tensors, part of libmodular_cuda. Attention uses libtorch's kernels.

namespace modular {
namespace {

using at::Tensor;
using cuda::read, cuda::with_element_type, cuda::write;

// Whether a norm's weight differs in type from the values.
bool is_wide(const Tensor& weight, const Tensor& x) { return weight.scalar_type() != x.scalar_type(); }

std::pair<Tensor, Tensor> rms_norm(const Tensor& x_given, const Tensor& weight_given, double eps) {
  const Tensor x = x_given.contiguous(), weight = weight_given.contiguous();
  const int64_t hidden = x.size(-1), rows = hidden ? x.numel() / hidden : 0;
  const Tensor y = at::empty_like(x), inverse_rms = at::empty({rows}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::rms_norm(read<T>(x), weight.const_data_ptr(), is_wide(weight, x), write<T>(y),
                              write<float>(inverse_rms), rows, hidden, static_cast<float>(eps), stream);
  });
  return {y, inverse_rms};
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_given, const Tensor& x_given, const Tensor& weight_given,
                                            const Tensor& inverse_rms) {
  const Tensor grad = grad_given.contiguous(), x = x_given.contiguous(), weight = weight_given.contiguous();
  const int64_t hidden = x.size(-1), rows = inverse_rms.numel();
  const int64_t blocks = cuda::norm_backward_blocks(/*is_layer_norm=*/false, rows, hidden);
  const Tensor dx = at::empty_like(x), partial = at::empty({blocks, hidden}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::rms_norm_backward(read<T>(grad), read<T>(x), weight.const_data_ptr(), is_wide(weight, x),
                                       read<float>(inverse_rms), write<T>(dx), write<float>(partial), blocks, rows,
                                       hidden, stream);
  });
  return {dx, partial.sum(0).to(weight.scalar_type())};
}

Tensor gated(Gate function, const Tensor& gate_given, const Tensor& up_given) {
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous(), y = at::empty_like(gate);
  with_element_type(gate, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::gated(function == Gate::silu, read<T>(gate), read<T>(up), write<T>(y), gate.numel(), stream);
  });
  return y;
}

std::pair<Tensor, Tensor> gated_backward(Gate function, const Tensor& grad_given, const Tensor& gate_given,
                                         const Tensor& up_given) {
  const Tensor grad = grad_given.contiguous(), gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  with_element_type(gate, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::gated_backward(function == Gate::silu, read<T>(grad), read<T>(gate), read<T>(up), write<T>(dgate),
                                    write<T>(dup), gate.numel(), stream);
  });
  return {dgate, dup};
}

Tensor rotary(const Tensor& x_given, const Tensor& cos_given, const Tensor& sin_given, bool inverse) {
  const Tensor x = x_given.stride(-1) == 1 ? x_given : x_given.contiguous();
  const Tensor cos = cos_given.contiguous(), sin = sin_given.contiguous();
  const cuda::RotaryShape shape{x.size(0),   x.size(1),   x.size(2),   x.size(3),
                                x.stride(0), x.stride(1), x.stride(2), cos.size(0) == 1 ? 0 : x.size(2) * x.size(3)};
  const Tensor y = at::empty({shape.batch, shape.seq, shape.heads, shape.dim}, x.options());
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::rotary(read<T>(x), read<T>(cos), read<T>(sin), write<T>(y), shape, inverse ? -1.0f : 1.0f, stream);
  });
  return y.transpose(1, 2);
}

Tensor in_rows(const Tensor& matrix) { return has_rows_in_memory(matrix) ? matrix : matrix.contiguous(); }

std::pair<Tensor, Tensor> cross_entropy(const Tensor& logits_given, const Tensor& targets_given) {
  const Tensor logits = in_rows(logits_given), targets = targets_given.contiguous();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const auto float32 = logits.options().dtype(at::kFloat);
  const Tensor losses = at::empty({rows}, float32), log_sum_exp = at::empty({rows}, float32);
  with_element_type(logits, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::cross_entropy(read<T>(logits), read<int64_t>(targets), write<float>(losses),
                                   write<float>(log_sum_exp), rows, vocab, logits.stride(0), kIgnoredTarget, stream);
  });
  return {losses.sum(at::kDouble).to(at::kFloat), log_sum_exp};
}

void cross_entropy_backward(const Tensor& grad, const Tensor& logits_given, const Tensor& targets_given,
                            const Tensor& log_sum_exp, const Tensor& result) {
  const Tensor logits = in_rows(logits_given), targets = targets_given.contiguous();
  with_element_type(logits, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    cuda::Launch<T>::cross_entropy_backward(read<float>(grad), read<T>(logits), read<int64_t>(targets),
                                            read<float>(log_sum_exp), write<T>(result), logits.size(0), logits.size(1),
                                            logits.stride(0), result.stride(0), kIgnoredTarget, stream);
  });
}

Tensor drop_elements(const Tensor& x_given, const DropoutRng& rng) {
  const Tensor x = x_given.contiguous();
  const int64_t columns = x.size(-1);
  const Tensor y = at::empty_like(x);
  with_element_type(x, [&](auto element, cudaStream_t stream) {
    using T = decltype(element);
    const cuda::Drop drop = {.samples = read<int64_t>(rng.samples),
                             .key = rng.key,
                             .threshold = static_cast<uint32_t>(plain::dropout_threshold(rng.p)),
                             .scale = static_cast<float>(1.0 / (1.0 - rng.p)),
                             .first_column = rng.part * columns,
                             .first_row = rng.first_row};
    cuda::Launch<T>::dropout(read<T>(x), write<T>(y), drop, rng.samples.size(0), plain::dropout_rows(x, rng), columns,
                             stream);
  });
  return y;
}

}  // namespace
}  // namespace modular

/// Entry point that the fused functions look up by name when they are installed or first get a CUDA tensor. Installs
/// the replacements of libtorch's own GPU kernels.
extern "C" __attribute__((visibility("default"))) const modular::Operations* modular_cuda_operations() {
  using namespace modular;
  cuda::install_layer_norm();
  static const Operations operations = {
      .rms_norm = rms_norm,
      .rms_norm_backward = rms_norm_backward,
      .gated = gated,
      .gated_backward = gated_backward,
      .rotary = rotary,
      .cross_entropy = cross_entropy,
      .cross_entropy_backward = cross_entropy_backward,
      .attention = nullptr,
      .attention_backward = nullptr,
      .decay_between = nullptr,
      .decay_between_backward = nullptr,
      .dropout = drop_elements,
      .adamw = cuda::adamw,
      .sum_of_squares = cuda::sum_of_squares,
      .to_float8 = cuda::to_float8,
  };
  return &operations;
}

namespace modular::cuda {

Float8 to_float8(const at::Tensor& given, at::ScalarType type, Float8Layout layout, const at::Tensor& largest) {
  const at::Tensor matrix = is_aligned(given) ? given : given.clone();
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const auto numbers = matrix.options().dtype(type), float32 = matrix.options().dtype(at::kFloat);
  Float8 result = {.largest = largest.defined() ? largest : at::zeros({}, float32), .scale = at::empty({}, float32)};
  if (layout.values) result.values = at::empty({rows, columns}, numbers);
  if (layout.transposed) result.transposed = at::empty({columns, rows}, numbers);
  with_stream(matrix, [&](cudaStream_t stream) {
    const auto* const x = read<__nv_bfloat16>(matrix);
    if (!largest.defined()) launch_largest(x, matrix.numel(), write<float>(result.largest), stream);
    launch_to_float8(type == at::kFloat8_e5m2, x, read<float>(result.largest), write<unsigned char>(result.values),
                     write<unsigned char>(result.transposed), write<float>(result.scale), rows, columns, stream);
  });
  return result;
}

namespace {

AdamWTensor describe(const AdamWParameter& parameter) {
  return {.gradient = read<__nv_bfloat16>(parameter.gradient),
          .value = write<float>(parameter.value),
          .exp_avg = write<float>(parameter.exp_avg),
          .exp_avg_sq = write<float>(parameter.exp_avg_sq),
          .compute_copy = write<__nv_bfloat16>(parameter.compute_copy),
          .count = parameter.value.numel(),
          .is_aligned = is_aligned(parameter.gradient) && is_aligned(parameter.value) &&
                        is_aligned(parameter.exp_avg) && is_aligned(parameter.exp_avg_sq) &&
                        is_aligned(parameter.compute_copy)};
}

AdamWTensor describe(const Tensor& gradient) {
  AdamWTensor tensor = {};
  tensor.gradient = read<__nv_bfloat16>(gradient);
  tensor.count = gradient.numel();
  tensor.is_aligned = is_aligned(gradient);
  return tensor;
}

/// Splits the tensors into launches of at most AdamWTensors::kMost.
template <class Item>
std::vector<AdamWTensors> to_launches(const std::vector<Item>& all) {
  std::vector<AdamWTensors> launches;
  for (const Item& item : all) {
    if (launches.empty() || launches.back().count == AdamWTensors::kMost) launches.push_back({});
    launches.back().items[launches.back().count++] = describe(item);
  }
  return launches;
}

const float* number(const std::optional<Tensor>& tensor) { return tensor ? read<float>(*tensor) : nullptr; }

}  // namespace

void adamw(const std::vector<AdamWParameter>& parameters, const AdamWFactors& factors,
           const std::optional<Tensor>& divisor, const std::optional<Tensor>& skipped) {
  with_stream(parameters.front().value, [&](cudaStream_t stream) {
    for (const AdamWTensors& launch : to_launches(parameters))
      launch_adamw(launch, factors, number(divisor), number(skipped), stream);
  });
}

Tensor sum_of_squares(const std::vector<Tensor>& tensors) {
  const std::vector<AdamWTensors> launches = to_launches(tensors);
  int64_t blocks = 0;
  for (const AdamWTensors& launch : launches) blocks += count_adamw_blocks(launch);
  const Tensor sums = at::empty({blocks}, tensors.front().options().dtype(at::kFloat));
  with_stream(sums, [&](cudaStream_t stream) {
    float* to = write<float>(sums);
    for (const AdamWTensors& launch : launches) {
      launch_sums_of_squares(launch, to, stream);
      to += count_adamw_blocks(launch);
    }
  });
  return sums.sum(at::kDouble);
}

}  // namespace modular::cuda
