// The CPU's attention: a key/value head of a sequence is a piece of work, the loops are in attention_kernel.cc.
#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/parallel.h"
#include "runtime/ops/cpu/tensors.h"
#include "runtime/ops/cpu/visible_keys.h"
#include "runtime/ops/operations.h"

namespace modular {
namespace {

using at::Tensor;
using cpu::read, cpu::with_element_type, cpu::write;

Tensor with_contiguous_vectors(const Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

}  // namespace

std::pair<Tensor, Tensor> cpu_attention(const Tensor& query_given, const Tensor& key_given, const Tensor& value_given,
                                        const AttentionMask& mask, double scale, const DropoutDraw* drawn) {
  const Tensor query = with_contiguous_vectors(query_given), key = with_contiguous_vectors(key_given),
               value = with_contiguous_vectors(value_given);
  const int64_t batch = query.size(0), heads = query.size(1), seq = query.size(2), dim = query.size(3);
  const int64_t kv_heads = key.size(1);
  const Tensor output = at::empty({batch, seq, heads * dim}, query.options());
  const Tensor log_sum_exp = at::empty({batch, heads, seq}, query.options().dtype(at::kFloat));
  const cpu::VisibleKeys visible(mask, seq);
  with_element_type(query, [&](auto element) {
    using T = decltype(element);
    const T *queries = read<T>(query), *keys = read<T>(key), *values = read<T>(value);
    T* to = write<T>(output);
    float* normalizers = write<float>(log_sum_exp);
    cpu::AttentionShape shape{.seq = seq,
                              .dim = dim,
                              .group = heads / kv_heads,
                              .scale = static_cast<float>(scale),
                              .visible = nullptr,
                              .present = nullptr,
                              .documents = nullptr,
                              .query = {query.stride(1), query.stride(2)},
                              .output = {dim, heads * dim},
                              .key_row = key.stride(2),
                              .value_row = value.stride(2),
                              .drop = nullptr};
    cpu::parallel_ranges(batch * kv_heads, 1, [&](int64_t first, int64_t last) {
      const Tensor scratch = at::empty({cpu::forward_scratch(shape)}, at::kFloat);
      cpu::AttentionShape own = shape;
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t sequence = piece / kv_heads, kv_head = piece % kv_heads, head = kv_head * shape.group;
        visible.set(own, sequence);
        const cpu::Drop drop = drawn ? cpu::drop_of(*drawn, sequence, drawn->part * heads + head, 0) : cpu::Drop();
        if (drawn) own.drop = &drop;
        cpu::attention_kernels<T>().forward(own, queries + sequence * query.stride(0) + head * query.stride(1),
                                            keys + sequence * key.stride(0) + kv_head * key.stride(1),
                                            values + sequence * value.stride(0) + kv_head * value.stride(1),
                                            to + sequence * seq * heads * dim + head * dim,
                                            normalizers + (sequence * heads + head) * seq, write<float>(scratch));
      }
    });
  });
  return {output, log_sum_exp};
}

std::array<Tensor, 3> cpu_attention_backward(const Tensor& grad_given, const Tensor& query_given,
                                             const Tensor& key_given, const Tensor& value_given,
                                             const AttentionMask& mask, double scale, const DropoutDraw* drawn,
                                             const Tensor& output, const Tensor& log_sum_exp) {
  const Tensor query = with_contiguous_vectors(query_given), key = with_contiguous_vectors(key_given),
               value = with_contiguous_vectors(value_given), grad = grad_given.contiguous();
  const int64_t batch = query.size(0), heads = query.size(1), seq = query.size(2), dim = query.size(3);
  const int64_t kv_heads = key.size(1);
  // In memory as the projections have them, so that their backward copies nothing.
  const Tensor dquery = at::empty({batch, seq, heads, dim}, query.options());
  const Tensor dkey = at::empty({batch, seq, kv_heads, dim}, key.options());
  const Tensor dvalue = at::empty({batch, seq, kv_heads, dim}, value.options());
  const cpu::VisibleKeys visible(mask, seq);
  with_element_type(query, [&](auto element) {
    using T = decltype(element);
    const T *queries = read<T>(query), *keys = read<T>(key), *values = read<T>(value);
    const T *mixed = read<T>(output), *upstream = read<T>(grad);
    T *to_query = write<T>(dquery), *to_key = write<T>(dkey), *to_value = write<T>(dvalue);
    const float* normalizers = read<float>(log_sum_exp);
    cpu::AttentionShape shape{.seq = seq,
                              .dim = dim,
                              .group = heads / kv_heads,
                              .scale = static_cast<float>(scale),
                              .visible = nullptr,
                              .present = nullptr,
                              .documents = nullptr,
                              .query = {query.stride(1), query.stride(2)},
                              .output = {dim, heads * dim},
                              .key_row = key.stride(2),
                              .value_row = value.stride(2),
                              .drop = nullptr};
    cpu::parallel_ranges(batch * kv_heads, 1, [&](int64_t first, int64_t last) {
      const Tensor scratch = at::empty({cpu::backward_scratch(shape)}, at::kFloat);
      cpu::AttentionShape own = shape;
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t sequence = piece / kv_heads, kv_head = piece % kv_heads, head = kv_head * shape.group;
        visible.set(own, sequence);
        const cpu::Drop drop = drawn ? cpu::drop_of(*drawn, sequence, drawn->part * heads + head, 0) : cpu::Drop();
        if (drawn) own.drop = &drop;
        const int64_t of_output = sequence * seq * heads * dim + head * dim;
        const int64_t of_key = (sequence * seq * kv_heads + kv_head) * dim;
        cpu::attention_kernels<T>().backward(own, queries + sequence * query.stride(0) + head * query.stride(1),
                                             keys + sequence * key.stride(0) + kv_head * key.stride(1),
                                             values + sequence * value.stride(0) + kv_head * value.stride(1),
                                             mixed + of_output, upstream + of_output,
                                             normalizers + (sequence * heads + head) * seq, to_query + of_output,
                                             to_key + of_key, to_value + of_key, kv_heads * dim, write<float>(scratch));
      }
    });
  });
  return {dquery.transpose(1, 2), dkey.transpose(1, 2), dvalue.transpose(1, 2)};
}

}  // namespace modular
