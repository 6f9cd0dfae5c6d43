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
  std::printf(" operations of more than half a percent\n");
  for (const auto& [name, operation] : by_time(recording.operations))
    if (operation.seconds > 0.005 * recording.seconds)
      std::printf("  %-40s %5.1f %%\n", name.c_str(), 100.0 * operation.seconds / recording.seconds);
}

void print_roofline(const char* title, const Recording& step, double matrix_rate) {
  const auto print = [&](const std::string& what, const Operation& of) {
    std::printf("%-24s%10.2f%10.2f%10.1f%10.2f", what.c_str(), 1e3 * of.seconds, 1e-9 * of.flops, 1e-6 * of.bytes,
                1e3 * of.roof);
    of.roof > 0.0 ? std::printf("%9.0f %%\n", 100.0 * of.roof / of.seconds) : std::printf("%11s\n", "");
  };
  std::printf("%-24s%10s%10s%10s%10s%11s\n", title, "ms per step", "GFLOP", "MB", "roof, ms", "of it");
  Operation whole{.seconds = step.seconds};
  for (const auto& [kind, sum] : by_time(step.kinds())) {
    print(kind, sum);
    whole.flops += sum.flops, whole.bytes += sum.bytes, whole.roof += sum.roof;
  }
  print("the step, all at roofs", whole);
  whole.roof = whole.flops / matrix_rate;
  print("the step's arithmetic", whole);
}

}  // namespace modular
