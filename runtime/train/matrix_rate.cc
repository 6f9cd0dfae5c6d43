#include "runtime/train/matrix_rate.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <limits>

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kInAll = 0.025, kTooShort = 0.001;  // seconds; below the latter, threads cost more than they compute
constexpr int64_t kFirst = 512, kLargest = 2048;

double measured(at::ScalarType type) {
  const c10::InferenceMode without_graph;
  const auto begin = Clock::now();
  const auto since = [](Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); };
  double rate = 0.0;
  for (int64_t size = kFirst; size <= kLargest; size *= 2) {
    const at::Tensor left = at::full({size, size}, 0.5, type), right = at::full({size, size}, 0.25, type);
    at::mm(left, right);  // the first call also creates threads and kernels
    double least = std::numeric_limits<double>::infinity();
    do {
      const auto start = Clock::now();
      at::mm(left, right);  // models do not call mm_out, which may use another library
      least = std::min(least, since(start));
    } while (least >= kTooShort && since(begin) < kInAll);
    const auto n = static_cast<double>(size);
    rate = std::max(rate, 2.0 * n * n * n / least);
    if (since(begin) >= kInAll) break;
  }
  return rate;
}

}  // namespace

double matrix_rate(bool bf16) {
  if (bf16) {
    static const double rate = measured(at::kBFloat16);
    return rate;
  }
  static const double rate = measured(at::kFloat);
  return rate;
}

}  // namespace modular
