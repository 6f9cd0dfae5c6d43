#include "benchmarks/machine_rates.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace at::native {
/// Declared as in runtime/ops/cpu/gemm.cc.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace modular {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

/// Seconds of the fastest call within 0.2 s, after a first call that is not counted.
double fastest(const std::function<void()>& call) {
  constexpr double kDuration = 0.2;
  call();
  double least = std::numeric_limits<double>::infinity();
  for (const auto begin = Clock::now(); std::chrono::duration<double>(Clock::now() - begin).count() < kDuration;) {
    const auto start = Clock::now();
    call();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

struct Best {
  double rate = 0.0;
  std::string by;
};

Best best_gemm(at::ScalarType type) {
  struct Library {
    const char* name;
    std::function<void(const Tensor& left, const Tensor& right, Tensor& result)> multiply;
  };
  std::vector<Library> libraries = {
      {"the program's", [](const Tensor& left, const Tensor& right, Tensor& result) { result = at::mm(left, right); }},
      {type == at::kFloat ? "MKL" : "oneDNN",
       [](const Tensor& left, const Tensor& right, Tensor& result) { at::cpu::mm_out(result, left, right); }}};
  if (type == at::kFloat && at::native::mkldnn_matmul)
    libraries.push_back({"oneDNN", [](const Tensor& left, const Tensor& right, Tensor& result) {
                           at::native::mkldnn_matmul(left, right, result, 0.0F, 1.0F);
                         }});
  Best best;
  for (const auto& [rows, in, out] :
       {std::array<int64_t, 3>{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 1024, 1024}}) {
    const Tensor left = at::randn({rows, in}).to(type), right = at::randn({in, out}).to(type);
    Tensor result = at::empty({rows, out}, type);
    const double operations = 2.0 * static_cast<double>(rows * in * out);
    for (const Library& library : libraries) {
      const double rate = operations / fastest([&] { library.multiply(left, right, result); });
      if (rate > best.rate)
        best = {rate, std::string(library.name) + ", " + std::to_string(rows) + " x " + std::to_string(in) + " x " +
                          std::to_string(out)};
    }
  }
  return best;
}

Best best_bandwidth() {
  Best best;
  for (const int64_t mebibytes : {8, 64, 512}) {
    const int64_t values = mebibytes << 18;
    Tensor result = at::ones({values});
    const Tensor left = at::ones({values}), right = at::ones({values});
    const auto bytes = static_cast<double>(mebibytes << 20);
    const std::string size = ", arrays of " + std::to_string(mebibytes) + " MiB";
    const double copy = 2.0 * bytes / fastest([&] { result.copy_(left); }),
                 triad = 3.0 * bytes / fastest([&] { at::add_out(result, left, right, 3.0); });
    if (copy > best.rate) best = {copy, "copy" + size};
    if (triad > best.rate) best = {triad, "triad" + size};
  }
  return best;
}

}  // namespace

MachineRates measure_machine(int threads) {
  const c10::InferenceMode without_graph;
  MachineRates rates;
  std::printf("%-28s%12s  best of\n", "this machine", "rate");
  for (const int count : {1, threads}) {
    at::set_num_threads(count);
    const std::string on = std::to_string(count) + (count == 1 ? " thread" : " threads");
    const auto print = [&](const char* what, const Best& best, double unit, const char* name) {
      std::printf("%-28s%12.1f  %s, by %s\n", (std::string(what) + ", " + on).c_str(), best.rate / unit, name,
                  best.by.c_str());
      std::fflush(stdout);
      return best.rate;
    };
    rates.float32 = print("float32 matmuls", best_gemm(at::kFloat), 1e9, "GFLOP/s");
    rates.bf16 = print("bfloat16 matmuls", best_gemm(at::kBFloat16), 1e9, "GFLOP/s");
    rates.bandwidth = print("memory", best_bandwidth(), 1e9, "GB/s");
    if (threads == 1) break;
  }
  return rates;
}

}  // namespace modular
