#include "benchmarks/shares.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;

// What is being timed: the stack of operations that are running. Everything runs on the calling thread; kernels' own
// threads are in an operation.
struct Timing {
  struct Frame {
    std::string name;
    Clock::time_point start;
    double callees = 0.0;
  };
  std::vector<Frame> running;
  std::map<std::string, double> seconds;
};

Timing timing;

std::string_view kind_of(std::string_view name) {
  static const std::vector<std::pair<std::string_view, std::vector<std::string_view>>> kinds = {
      {"matrix products", {"mm", "addmm", "bmm", "matmul", "linear", "_weight_int8pack_mm", "mkldnn_linear"}},
      {"attention", {"Attention", "attention"}},
      {"norm", {"RmsNorm"}},
      {"gated activation", {"GatedActivation", "silu", "gelu"}},
      {"rotary", {"Rotary"}},
      {"cross entropy", {"CrossEntropy", "cross_entropy", "nll_loss", "log_softmax"}},
      {"embedding", {"embedding", "Embedding"}},
      {"optimizer and clipping", {"_fused_adamw_", "_foreach_norm", "_foreach_mul_", "linalg_vector_norm"}},
      {"casts and copies", {"copy_", "to", "_to_copy", "contiguous", "clone"}},
      {"sums and element-wise",
       {"add", "add_", "mul", "mul_", "sum", "neg", "pow", "rsqrt", "mean", "cat", "zeros", "fill_"}},
  };
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  for (const auto& [kind, names] : kinds)
    for (const std::string_view one : names) {
      const bool is_part = one.size() > 5 && name.find(one) != std::string_view::npos;
      if (name == one || is_part) return kind;
    }
  return "everything else";
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  timing.running.push_back({function.name(), Clock::now()});
  return nullptr;
}

void leave(const at::RecordFunction&, at::ObserverContext*) {
  const auto frame = std::move(timing.running.back());
  timing.running.pop_back();
  const double elapsed = std::chrono::duration<double>(Clock::now() - frame.start).count();
  timing.seconds[frame.name] += elapsed - frame.callees;
  if (!timing.running.empty()) timing.running.back().callees += elapsed;
}

}  // namespace

void print_shares(const char* title, const std::function<void()>& work) {
  timing = {};
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(enter, leave)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
  const auto start = Clock::now();
  work();
  const double total = std::chrono::duration<double>(Clock::now() - start).count();
  at::removeCallback(handle);

  std::map<std::string_view, double> kinds;
  double recorded = 0.0;
  for (const auto& [name, seconds] : timing.seconds) kinds[kind_of(name)] += seconds, recorded += seconds;
  kinds["outside of operations"] = total - recorded;
  std::vector<std::pair<double, std::string_view>> order;
  for (const auto& [kind, seconds] : kinds) order.emplace_back(seconds, kind);
  std::sort(order.rbegin(), order.rend());
  std::printf("%s\n", title);
  for (const auto& [seconds, kind] : order)
    std::printf("  %-24s %5.1f %%\n", std::string(kind).c_str(), 100.0 * seconds / total);
  std::vector<std::pair<double, std::string_view>> operations;
  for (const auto& [name, seconds] : timing.seconds)
    if (seconds > 0.005 * total) operations.emplace_back(seconds, name);
  std::sort(operations.rbegin(), operations.rend());
  std::printf(" operations of more than half a percent\n");
  for (const auto& [seconds, name] : operations)
    std::printf("  %-40s %5.1f %%\n", std::string(name).c_str(), 100.0 * seconds / total);
}

}  // namespace modular
