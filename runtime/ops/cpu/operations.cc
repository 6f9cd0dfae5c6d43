#include "runtime/ops/cpu/operations.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/model/tensors.h"
#include "runtime/ops/cpu/kernels.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/operations.h"

namespace modular {

// The fused operations on CPUs. Rows are split over threads; the loops are in kernels.cc.

namespace {

using at::Tensor;
using cpu::kGrain, cpu::read, cpu::rows_per_piece, cpu::with_element_type, cpu::write;

std::pair<Tensor, Tensor> rms_norm(const Tensor& x_given, const Tensor& weight_given, double eps) {
  const Tensor x = x_given.contiguous(), weight = weight_given.to(at::kFloat).contiguous();
  const bool rounds_first = weight_given.scalar_type() == x.scalar_type();
  const int64_t hidden = x.size(-1), rows = hidden ? x.numel() / hidden : 0;
  const Tensor y = at::empty_like(x), inverse_rms = at::empty({rows}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(x);
    const float* scale = read<float>(weight);
    T* to = write<T>(y);
    float* inverse = write<float>(inverse_rms);
    cpu::parallel_ranges(rows, rows_per_piece(hidden), [&](int64_t first, int64_t last) {
      cpu::kernels<T>().rms_norm(from + first * hidden, scale, rounds_first, to + first * hidden, inverse + first,
                                 last - first, hidden, static_cast<float>(eps));
    });
  });
  return {y, inverse_rms};
}

std::pair<Tensor, Tensor> rms_norm_backward(const Tensor& grad_given, const Tensor& x_given, const Tensor& weight_given,
                                            const Tensor& inverse_rms) {
  const Tensor grad = grad_given.contiguous(), x = x_given.contiguous();
  const Tensor weight = weight_given.to(at::kFloat).contiguous();
  const int64_t hidden = x.size(-1), rows = inverse_rms.numel();
  const Tensor dx = at::empty_like(x);
  const cpu::RowPieces pieces(rows, hidden);
  const Tensor partial = at::zeros({pieces.count, hidden}, x.options().dtype(at::kFloat));
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T *upstream = read<T>(grad), *from = read<T>(x);
    const float* scale = read<float>(weight);
    T* to = write<T>(dx);
    const float* inverse = read<float>(inverse_rms);
    float* sums = write<float>(partial);
    pieces.for_each([&](int64_t piece, int64_t first, int64_t last) {
      cpu::kernels<T>().rms_norm_backward(upstream + first * hidden, from + first * hidden, scale, inverse + first,
                                          to + first * hidden, sums + piece * hidden, last - first, hidden);
    });
  });
  return {dx, partial.sum(0).to(weight_given.scalar_type())};
}

Tensor gated(Gate function, const Tensor& gate_given, const Tensor& up_given) {
  const Tensor gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor y = at::empty_like(gate);
  with_element_type(gate, [&](auto element) {
    using T = decltype(element);
    const T *gates = read<T>(gate), *ups = read<T>(up);
    T* to = write<T>(y);
    cpu::parallel_ranges(gate.numel(), kGrain, [&](int64_t first, int64_t last) {
      cpu::kernels<T>().gated(function, gates + first, ups + first, to + first, last - first);
    });
  });
  return y;
}

std::pair<Tensor, Tensor> gated_backward(Gate function, const Tensor& grad_given, const Tensor& gate_given,
                                         const Tensor& up_given) {
  const Tensor grad = grad_given.contiguous(), gate = gate_given.contiguous(), up = up_given.contiguous();
  const Tensor dgate = at::empty_like(gate), dup = at::empty_like(up);
  with_element_type(gate, [&](auto element) {
    using T = decltype(element);
    const T *upstream = read<T>(grad), *gates = read<T>(gate), *ups = read<T>(up);
    T *to_gate = write<T>(dgate), *to_up = write<T>(dup);
    cpu::parallel_ranges(gate.numel(), kGrain, [&](int64_t first, int64_t last) {
      cpu::kernels<T>().gated_backward(function, upstream + first, gates + first, ups + first, to_gate + first,
                                       to_up + first, last - first);
    });
  });
  return {dgate, dup};
}

Tensor rotary(const Tensor& x_given, const Tensor& cos_given, const Tensor& sin_given, bool inverse) {
  const Tensor x = x_given.stride(-1) == 1 ? x_given : x_given.contiguous();
  const Tensor cos = cos_given.contiguous(), sin = sin_given.contiguous();
  const int64_t batch = x.size(0), heads = x.size(1), seq = x.size(2), dim = x.size(3);
  const Tensor y = at::empty({batch, seq, heads, dim}, x.options());
  const int64_t table_batch_stride = cos.size(0) == 1 ? 0 : seq * dim;
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T *from = read<T>(x), *cosines = read<T>(cos), *sines = read<T>(sin);
    T* to = write<T>(y);
    const auto rotate = cpu::kernels<T>().rotate;
    cpu::parallel_ranges(batch * seq, rows_per_piece(heads * dim), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const int64_t sequence = row / seq, position = row % seq;
        const int64_t entry = sequence * table_batch_stride + position * dim;
        const T* vector = from + sequence * x.stride(0) + position * x.stride(2);
        rotate(vector, heads, x.stride(1), cosines + entry, sines + entry, to + row * heads * dim, dim / 2,
               inverse ? -1.0f : 1.0f);
      }
    });
  });
  return y.transpose(1, 2);
}

std::pair<Tensor, Tensor> cross_entropy(const Tensor& logits_given, const Tensor& targets_given) {
  const Tensor logits = logits_given.contiguous(), targets = targets_given.contiguous();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const Tensor log_sum_exp = at::empty({rows}, logits.options().dtype(at::kDouble));
  const int64_t* target = targets.const_data_ptr<int64_t>();
  // Summed in float64 row by row, so that the loss of a large batch keeps its digits and does not depend on the
  // threads.
  std::vector<float> losses(static_cast<size_t>(rows), 0.0f);
  with_element_type(logits, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(logits);
    double* normalizer = log_sum_exp.mutable_data_ptr<double>();
    cpu::parallel_ranges(rows, rows_per_piece(vocab), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        if (target[row] == kIgnoredTarget) {
          normalizer[row] = 0.0;
          continue;
        }
        TORCH_CHECK_INDEX(target[row] >= 0 && target[row] < vocab, "Target ", target[row], " is out of bounds.");
        normalizer[row] = cpu::kernels<T>().log_sum_exp(from + row * vocab, vocab);
        losses[static_cast<size_t>(row)] =
            cpu::kernels<T>().negative_log_likelihood(from + row * vocab, target[row], normalizer[row]);
      }
    });
  });
  double sum = 0.0;
  for (const float loss : losses) sum += loss;
  return {at::scalar_tensor(sum, logits.options().dtype(at::kFloat)), log_sum_exp};
}

void cross_entropy_backward(const Tensor& grad, const Tensor& logits_given, const Tensor& targets_given,
                            const Tensor& log_sum_exp, const Tensor& result) {
  const Tensor logits = logits_given.contiguous(), targets = targets_given.contiguous();
  const int64_t rows = logits.size(0), vocab = logits.size(1);
  const int64_t* target = targets.const_data_ptr<int64_t>();
  const float scale = grad.item<float>();
  with_element_type(logits, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(logits);
    T* to = write<T>(result);
    const double* normalizer = log_sum_exp.const_data_ptr<double>();
    cpu::parallel_ranges(rows, rows_per_piece(vocab), [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        if (target[row] == kIgnoredTarget) {
          std::fill_n(reinterpret_cast<char*>(to + row * vocab), vocab * static_cast<int64_t>(sizeof(T)), '\0');
          continue;
        }
        cpu::kernels<T>().negative_log_likelihood_backward(from + row * vocab, to + row * vocab, vocab, target[row],
                                                           normalizer[row], scale);
      }
    });
  });
}

// Differences of float64 prefix sums keep enough digits of the interval's sum.
Tensor decay_between(const Tensor& steps) {
  const int64_t length = steps.size(-1), rows = length ? steps.numel() / length : 0;
  const Tensor sums = steps.to(at::kDouble).cumsum(-1).contiguous();
  auto sizes = steps.sizes().vec();
  sizes.push_back(length);
  const Tensor decay = at::empty(sizes, steps.options());
  const double* from = sums.const_data_ptr<double>();
  float* to = write<float>(decay);
  cpu::parallel_ranges(rows, rows_per_piece(length * length), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      cpu::kernels<float>().decay(from + row * length, to + row * length * length, length);
  });
  return decay;
}

Tensor decay_between_backward(const Tensor& grad_given, const Tensor& decay) {
  const Tensor grad = grad_given.contiguous();
  const int64_t length = decay.size(-1), rows = length ? decay.numel() / (length * length) : 0;
  const Tensor gradient = at::empty(decay.sizes().slice(0, decay.dim() - 1), decay.options().dtype(at::kDouble));
  const float *upstream = read<float>(grad), *values = read<float>(decay);
  double* to = gradient.mutable_data_ptr<double>();
  cpu::parallel_ranges(rows, rows_per_piece(length * length), [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      cpu::kernels<float>().decay_backward(upstream + row * length * length, values + row * length * length,
                                           to + row * length, length);
  });
  return gradient.flip(-1).cumsum(-1).flip(-1).to(at::kFloat);
}

Tensor drop_elements(const Tensor& x_given, const DropoutRng& rng) {
  const Tensor x = x_given.contiguous();
  const int64_t columns = x.size(-1), rows_per_sample = plain::dropout_rows(x, rng);
  const Tensor y = at::empty_like(x);
  with_element_type(x, [&](auto element) {
    using T = decltype(element);
    const T* from = read<T>(x);
    T* to = write<T>(y);
    cpu::parallel_ranges(
        rng.samples.size(0) * rows_per_sample, rows_per_piece(columns), [&](int64_t first, int64_t last) {
          for (int64_t row = first; row < last;) {
            const int64_t sample = row / rows_per_sample, row_in_sample = row % rows_per_sample;
            const int64_t rows = std::min(last - row, rows_per_sample - row_in_sample);
            cpu::kernels<T>().dropout(cpu::to_drop(rng, sample, 0, rng.part * columns), from + row * columns,
                                      to + row * columns, row_in_sample, rows, columns);
            row += rows;
          }
        });
  });
  return y;
}

}  // namespace

const Operations& cpu_operations() {
  static const Operations operations = {
      .rms_norm = rms_norm,
      .rms_norm_backward = rms_norm_backward,
      .gated = gated,
      .gated_backward = gated_backward,
      .quick_gelu = [](const Tensor& x) { return cpu::activate(cpu::Activation::quick_gelu, x); },
      .quick_gelu_backward =
          [](const Tensor& grad, const Tensor& x) {
            return cpu::activate_backward(cpu::Activation::quick_gelu, grad, x);
          },
      .rotary = rotary,
      .cross_entropy = cross_entropy,
      .cross_entropy_backward = cross_entropy_backward,
      .attention = cpu_attention,
      .attention_backward = cpu_attention_backward,
      .decay_between = decay_between,
      .decay_between_backward = decay_between_backward,
      .dropout = drop_elements,
      .adamw = cpu::adamw,
      .sum_of_squares = cpu::sum_of_squares,
      .to_float8 = cpu::to_float8,
  };
  return operations;
}

}  // namespace modular

namespace modular::cpu {

Float8 to_float8(const at::Tensor& matrix, at::ScalarType type, Float8Layout layout, const at::Tensor& given) {
  const float most = type == at::kFloat8_e5m2 ? 57344.0F : 448.0F;
  const at::Tensor largest = given.defined() ? given : matrix.abs().max().to(at::kFloat);
  const at::Tensor scale = at::where(largest.gt(0.0), largest / most, at::ones_like(largest));
  const at::Tensor values = (matrix.to(at::kFloat) * (1.0 / scale)).clamp_(-most, most).to(type);
  return {.values = layout.values ? values : at::Tensor(),
          .transposed = layout.transposed ? values.t().contiguous() : at::Tensor(),
          .largest = largest,
          .scale = scale};
}

}  // namespace modular::cpu
