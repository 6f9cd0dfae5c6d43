// Compares float32 GEMMs by MKL and by the library that at::mm uses, interleaved: a layer's forward, its input's
// gradient and its weight's gradient, with sizes from one token to a batch. The thresholds in runtime/ops/cpu/gemm.cc
// come from these measurements.
#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <tuple>

#include "runtime/ops/cpu/replacements.h"

namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

template <class Function>
double seconds_per_call(const Function& function) {
  constexpr double kDuration = 0.02;
  double elapsed = 0;
  int calls = 0;
  for (const auto start = Clock::now(); elapsed < kDuration; ++calls) {
    function();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return elapsed / calls;
}

/// Prints GFLOP/s of MKL and of at::mm, each the best of seven rounds.
void compare(const Tensor& left, const Tensor& right) {
  double mkl = std::numeric_limits<double>::infinity(), chosen = mkl;
  for (int round = 0; round < 7; ++round) {
    mkl = std::min(mkl, seconds_per_call([&] { at::cpu::mm(left, right); }));
    chosen = std::min(chosen, seconds_per_call([&] { at::mm(left, right); }));
  }
  const double work = 2e-9 * static_cast<double>(left.size(0) * left.size(1) * right.size(1));
  std::printf(" | %6.0f %6.0f %5.2f", work / mkl, work / chosen, mkl / chosen);
}

}  // namespace

int main(int count, char** values) {
  at::set_num_threads(count > 1 ? std::atoi(values[1]) : 2);
  modular::cpu::install_gemm();
  std::printf("GFLOP/s of MKL, of %s from 2^22 multiplications on, and their ratio; %d threads\n",
              modular::cpu::gemm_backend().data(), at::get_num_threads());
  std::printf(" rows    in   out | forward              | input's gradient      | weight's gradient\n");
  const c10::InferenceMode without_graph;
  for (const auto& [rows, in, out] : std::initializer_list<std::tuple<int64_t, int64_t, int64_t>>{{1, 2048, 8192},
                                                                                                  {8, 1024, 1024},
                                                                                                  {64, 128, 128},
                                                                                                  {64, 256, 256},
                                                                                                  {256, 256, 256},
                                                                                                  {4096, 256, 256},
                                                                                                  {4096, 256, 688},
                                                                                                  {4096, 688, 256},
                                                                                                  {4096, 256, 8192},
                                                                                                  {512, 768, 3072},
                                                                                                  {512, 3072, 768},
                                                                                                  {4096, 8, 256},
                                                                                                  {4096, 256, 8},
                                                                                                  {5000, 300, 500}}) {
    const Tensor x = at::randn({rows, in}), weight = at::randn({out, in}), gradient = at::randn({rows, out});
    std::printf("%5ld %5ld %5ld", rows, in, out);
    compare(x, weight.t());
    compare(gradient, weight);
    compare(gradient.t(), x);
    std::printf("\n");
    std::fflush(stdout);
  }
}
