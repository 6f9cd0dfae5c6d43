#include "benchmarks/shares.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace modular {
namespace {

template <class Operations>
auto by_time(const Operations& operations) {
  std::vector<std::pair<std::string, Operation>> order(operations.begin(), operations.end());
  std::ranges::sort(order, std::greater<>(), [](const auto& entry) { return entry.second.seconds; });
  return order;
}

}  // namespace

void print_shares(const char* title, const Recording& recording) {
  std::printf("%s\n", title);
  for (const auto& [kind, sum] : by_time(recording.kinds()))
    std::printf("  %-24s %5.1f %%\n", kind.c_str(), 100.0 * sum.seconds / recording.seconds);
  std::printf(" operations above 0.5 %%\n");
  for (const auto& [name, operation] : by_time(recording.operations))
    if (operation.seconds > 0.005 * recording.seconds)
      std::printf("  %-40s %5.1f %%\n", name.c_str(), 100.0 * operation.seconds / recording.seconds);
}

void print_roofline(const char* title, const Recording& step, double matrix_rate) {
  const auto print = [&](const std::string& name, const Operation& sum) {
    std::printf("%-24s%10.2f%10.2f%10.1f%10.2f", name.c_str(), 1e3 * sum.seconds, 1e-9 * sum.flops, 1e-6 * sum.bytes,
                1e3 * sum.roof);
    sum.roof > 0.0 ? std::printf("%9.0f %%\n", 100.0 * sum.roof / sum.seconds) : std::printf("%11s\n", "");
  };
  std::printf("%-24s%10s%10s%10s%10s%11s\n", title, "ms per step", "GFLOP", "MB", "roof, ms", "fraction");
  Operation total{.seconds = step.seconds};
  for (const auto& [kind, sum] : by_time(step.kinds())) {
    print(kind, sum);
    total.flops += sum.flops, total.bytes += sum.bytes, total.roof += sum.roof;
  }
  print("all, each at its roof", total);
  total.roof = total.flops / matrix_rate;
  print("matmuls and attention", total);
}

}  // namespace modular
