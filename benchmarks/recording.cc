#include "benchmarks/recording.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "benchmarks/least_costs.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;

// The stack of running operations. Everything runs on the calling thread; the kernels' own threads run inside an
// operation.
struct Frame {
  std::string name;
  Clock::time_point start;
  std::optional<Cost> cost;       // if it is known by name
  std::vector<c10::IValue> read;  // otherwise its inputs, until it calls another operation
  bool is_inner = false;          // inside an operation whose cost is known: nothing more to count
  bool has_called = false;
  double callees = 0.0;
};
std::vector<Frame> running;
Recording recording;
const MachineRates* machine = nullptr;

std::string_view get_kind(std::string_view name) {
  static const std::vector<std::pair<std::string_view, std::vector<std::string_view>>> kinds = {
      {"matmuls",
       {"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_weight_int8pack_mm", "mkldnn_linear", "convolution"}},
      {"attention", {"Attention", "attention"}},
      {"norm", {"RmsNorm", "layer_norm"}},
      {"activation", {"GatedActivation", "QuickGelu", "silu", "silu_backward", "gelu", "gelu_backward"}},
      {"rotary", {"Rotary"}},
      {"dropout", {"Dropout", "dropout"}},
      {"cross entropy", {"CrossEntropy", "cross_entropy", "nll_loss", "log_softmax"}},
      {"embedding", {"embedding", "Embedding"}},
      {"optimizer and clipping", {"_fused_adamw_", "_foreach_norm", "_foreach_mul_", "linalg_vector_norm"}},
      {"casts and copies", {"copy_", "to", "_to_copy", "contiguous", "clone"}},
      {"sums and element-wise",
       {"add", "add_", "sub", "mul", "mul_", "div", "div_", "sum", "neg", "pow", "tanh", "rsqrt", "mean", "cat",
        "zeros", "zero_", "fill_"}},
  };
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  for (const auto& [kind, names] : kinds)
    for (const std::string_view part : names) {
      const bool is_part = part.size() > 5 && name.find(part) != std::string_view::npos;
      if (name == part || is_part) return kind;
    }
  return "everything else";
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  Frame frame{.name = function.name()};
  if (machine) {
    if (!running.empty()) {
      frame.is_inner = running.back().is_inner || running.back().cost;
      running.back().has_called = true;
      running.back().read.clear();
    }
    const Values inputs(function.inputs().data(), function.inputs().size());
    if (!frame.is_inner) frame.cost = cost_by_name(frame.name, inputs);
    const bool is_node = function.scope() != at::RecordScope::FUNCTION;
    if (!frame.is_inner && !frame.cost && !is_node) frame.read.assign(inputs.begin(), inputs.end());
  }
  frame.start = Clock::now();
  running.push_back(std::move(frame));
  return nullptr;
}

void leave(const at::RecordFunction& function, at::ObserverContext*) {
  const auto now = Clock::now();
  Frame frame = std::move(running.back());
  running.pop_back();
  const double elapsed = std::chrono::duration<double>(now - frame.start).count();
  Operation& operation = recording.operations[frame.name];
  operation.seconds += elapsed - frame.callees;
  if (!running.empty()) running.back().callees += elapsed;
  if (!machine || frame.is_inner) return;
  if (!frame.cost && !frame.has_called && function.scope() == at::RecordScope::FUNCTION)
    frame.cost = cost_by_values(frame.name, frame.read, function.outputs());
  if (!frame.cost) return;
  operation.flops += frame.cost->flops;
  operation.bytes += frame.cost->bytes;
  operation.roof += std::max(frame.cost->flops / (frame.cost->bf16 ? machine->bf16 : machine->float32),
                             frame.cost->bytes / machine->bandwidth);
}

}  // namespace

Recording record(const std::function<void()>& work, const MachineRates* rates) {
  recording = {};
  machine = rates;
  forget_forwards();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(enter, leave)
          .needsInputs(rates != nullptr)
          .needsOutputs(rates != nullptr)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
  const auto start = Clock::now();
  work();
  recording.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  at::removeCallback(handle);
  return std::move(recording);
}

std::map<std::string_view, Operation> Recording::kinds() const {
  std::map<std::string_view, Operation> sums;
  double left = seconds;
  for (const auto& [name, operation] : operations) {
    Operation& sum = sums[get_kind(name)];
    sum.seconds += operation.seconds, sum.flops += operation.flops, sum.bytes += operation.bytes;
    sum.roof += operation.roof;
    left -= operation.seconds;
  }
  sums["outside of operations"].seconds = left;
  return sums;
}

}  // namespace modular
