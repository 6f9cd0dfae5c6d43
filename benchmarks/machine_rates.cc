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
/// As in runtime/ops/cpu/gemm.cc.
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace modular {
namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

/// Seconds of the fastest of some calls, after one that is not counted.
double fastest(const std::function<void()>& call) {
  constexpr double kInAll = 0.2;
  call();
  double least = std::numeric_limits<double>::infinity();
  for (const auto begin = Clock::now(); std::chrono::duration<double>(Clock::now() - begin).count() < kInAll;) {
    const auto start = Clock::now();
    call();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

struct Found {
  double rate = 0.0;
  std::string by;
};

Found best_gemm(at::ScalarType type) {
  struct Library {
    const char* name;
    std::function<void(const Tensor& left, const Tensor& right, Tensor& product)> multiply;
  };
  std::vector<Library> libraries = {
      {"the program's",
       [](const Tensor& left, const Tensor& right, Tensor& product) { product = at::mm(left, right); }},
      {type == at::kFloat ? "MKL" : "oneDNN",
       [](const Tensor& left, const Tensor& right, Tensor& product) { at::cpu::mm_out(product, left, right); }}};
  if (type == at::kFloat && at::native::mkldnn_matmul)
    libraries.push_back({"oneDNN", [](const Tensor& left, const Tensor& right, Tensor& product) {
                           at::native::mkldnn_matmul(left, right, product, 0.0F, 1.0F);
                         }});
  Found best;
  for (const auto& [rows, in, out] :
       {std::array<int64_t, 3>{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 1024, 1024}}) {
    const Tensor left = at::randn({rows, in}).to(type), right = at::randn({in, out}).to(type);
    Tensor product = at::empty({rows, out}, type);
    const double operations = 2.0 * static_cast<double>(rows * in * out);
    for (const Library& library : libraries) {
      const double rate = operations / fastest([&] { library.multiply(left, right, product); });
      if (rate > best.rate)
        best = {rate, std::string(library.name) + ", " + std::to_string(rows) + " x " + std::to_string(in) + " x " +
                          std::to_string(out)};
    }
  }
  return best;
}

Found best_bandwidth() {
  Found best;
  for (const int64_t mebibytes : {8, 64, 512}) {
    const int64_t values = mebibytes << 18;
    Tensor to = at::ones({values});
    const Tensor one = at::ones({values}), other = at::ones({values});
    const auto bytes = static_cast<double>(mebibytes << 20);
    const std::string size = ", arrays of " + std::to_string(mebibytes) + " MiB";
    const double copy = 2.0 * bytes / fastest([&] { to.copy_(one); }),
                 triad = 3.0 * bytes / fastest([&] { at::add_out(to, one, other, 3.0); });
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
    const auto print = [&](const char* what, const Found& found, double unit, const char* name) {
      std::printf("%-28s%12.1f  %s, by %s\n", (std::string(what) + ", " + on).c_str(), found.rate / unit, name,
                  found.by.c_str());
      std::fflush(stdout);
      return found.rate;
    };
    rates.float32 = print("float32 products", best_gemm(at::kFloat), 1e9, "GFLOP/s");
    rates.bf16 = print("bfloat16 products", best_gemm(at::kBFloat16), 1e9, "GFLOP/s");
    rates.bandwidth = print("memory", best_bandwidth(), 1e9, "GB/s");
    if (threads == 1) break;
  }
  return rates;
}

}  // namespace modular
