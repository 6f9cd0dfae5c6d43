#include "runtime/parallel/draws.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace modular {
namespace {

using init::Distribution;

constexpr int64_t kGroup = 64;  // elements that sixteen counters give

/// The words of elements 64 * group … 64 * group + 63: Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy
/// as 1, 2, 3) of the counters (16 * group + 0 … 15, high word, 0, 0), all first words before all second ones.
void draw_words(uint64_t key, uint64_t group, uint32_t* words) {
  for (uint32_t lane = 0; lane < 16; ++lane) {
    const uint64_t block = 16 * group + lane;
    auto counter0 = static_cast<uint32_t>(block), counter1 = static_cast<uint32_t>(block >> 32);
    uint32_t counter2 = 0, counter3 = 0;
    auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t even = uint64_t{0xD2511F53} * counter0, odd = uint64_t{0xCD9E8D57} * counter2;
      counter0 = static_cast<uint32_t>(odd >> 32) ^ counter1 ^ key0;
      counter1 = static_cast<uint32_t>(odd);
      counter2 = static_cast<uint32_t>(even >> 32) ^ counter3 ^ key1;
      counter3 = static_cast<uint32_t>(even);
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    words[lane] = counter0;
    words[16 + lane] = counter1;
    words[32 + lane] = counter2;
    words[48 + lane] = counter3;
  }
}

/// The inverse of the error function times the root of 2, for -1 < x < 1 (Giles, Approximating the erfinv function).
float normal_quantile(float x) {
  const float w = -std::log((1.0F - x) * (1.0F + x));
  const auto polynomial = [](float at, auto... coefficients) {
    float sum = 0.0F;
    ((sum = sum * at + coefficients), ...);
    return sum;
  };
  const float inverse =
      w < 5.0F ? polynomial(w - 2.5F, 2.81022636e-08F, 3.43273939e-07F, -3.5233877e-06F, -4.39150654e-06F,
                            0.00021858087F, -0.00125372503F, -0.00417768164F, 0.246640727F, 1.50140941F)
               : polynomial(std::sqrt(w) - 3.0F, -0.000200214257F, 0.000100950558F, 0.00134934322F, -0.00367342844F,
                            0.00573950773F, -0.0076224613F, 0.00943887047F, 1.00167406F, 2.83297682F);
  return inverse * x * std::numbers::sqrt2_v<float>;
}

/// Elements first … first + count - 1 of the whole tensor.
void draw_run(const Distribution& from, uint64_t key, int64_t first, int64_t count, float* values) {
  const bool is_normal = from.kind == Distribution::Kind::normal;
  const auto low = static_cast<float>(from.first), deviation = static_cast<float>(from.second);
  const auto range = static_cast<float>(from.second - from.first), cutoff = static_cast<float>(from.cutoff);
  const auto share = static_cast<float>(std::erf(from.cutoff / std::numbers::sqrt2));  // of the normal distribution
  const int64_t end = first + count;
  for (int64_t group = first / kGroup; group * kGroup < end; ++group) {
    uint32_t words[kGroup];
    draw_words(key, static_cast<uint64_t>(group), words);
    for (int64_t at = std::max(first, group * kGroup); at < std::min(end, (group + 1) * kGroup); ++at) {
      // The middle of one of 2^23 parts of (0, 1), which is a float.
      const float uniform = (static_cast<float>(words[at - group * kGroup] >> 9) + 0.5F) * 0x1p-23F;
      const float normal =
          is_normal ? std::clamp(normal_quantile((2.0F * uniform - 1.0F) * share), -cutoff, cutoff) : 0;
      values[at - first] = is_normal ? low + deviation * normal : low + range * uniform;
    }
  }
}

}  // namespace

at::Tensor draw_part(const Distribution& from, uint64_t key, at::IntArrayRef whole, at::IntArrayRef offset,
                     at::IntArrayRef shape) {
  at::Tensor part = from.kind == Distribution::Kind::constant ? at::full(shape, from.first, at::kFloat)
                                                              : at::empty(shape, at::kFloat);
  if (part.numel() > 0 && from.kind != Distribution::Kind::constant) {
    const size_t dims = shape.size();
    const int64_t columns = dims == 0 ? 1 : shape[dims - 1], rows = part.numel() / columns;
    auto* const values = part.mutable_data_ptr<float>();
    const auto draw_rows = [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        // Of the row's first element, the place in the part becomes that in the whole tensor.
        int64_t rest = row, first = dims == 0 ? 0 : offset[dims - 1], stride = dims == 0 ? 1 : whole[dims - 1];
        for (size_t dim = dims - std::min<size_t>(dims, 1); dim-- > 0; rest /= shape[dim], stride *= whole[dim])
          first += (offset[dim] + rest % shape[dim]) * stride;
        draw_run(from, key, first, columns, values + row * columns);
      }
    };
    at::parallel_for(0, rows, /*grain_size=*/std::max<int64_t>(1, 16384 / columns), draw_rows);
  }
  if (from.zero_row && *from.zero_row >= offset[0] && *from.zero_row < offset[0] + shape[0])
    part.select(0, *from.zero_row - offset[0]).zero_();
  return part;
}

}  // namespace modular
