// Products of float32 matrices by MKL and by what the rule takes, interleaved: those of a layer's forward, of its
// input's gradient and of its weight's, over sizes from a token to a batch. What runtime/ops/cpu/gemm.cc chooses by was
// read from here.
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

#include "runtime/ops/cpu/gemm.h"

namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

template <class Function>
double seconds_per_call(const Function& function) {
  constexpr double kTurn = 0.02;
  double elapsed = 0;
  int calls = 0;
  for (const auto start = Clock::now(); elapsed < kTurn; ++calls) {
    function();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return elapsed / calls;
}

/// Prints GFLOP/s of MKL and of what at::mm takes: the best of some turns each.
void compare(const Tensor& left, const Tensor& right) {
  double mkl = std::numeric_limits<double>::infinity(), chosen = mkl;
  for (int turn = 0; turn < 7; ++turn) {
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
  std::printf("GFLOP/s by MKL, by %s from 2^22 multiplications on, and their ratio; %d threads\n",
              modular::cpu::gemm_backend().data(), at::get_num_threads());
  std::printf(" rows    in   out | forward              | gradient of the input | of the weight\n");
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
