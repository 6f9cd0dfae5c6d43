#include "runtime/parallel/memory/saved_tensors.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "runtime/model/functions.h"

namespace modular {
namespace {

thread_local SavedTensors* watching = nullptr;
FusedFunctions unwatched;  // the program's functions, which the wrappers below replace

bool watches(const char* operation) {
  return watching && watching->is_active() && at::GradMode::is_enabled() && watching->recomputes(operation);
}

Tensor watched_rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  const auto function = unwatched.rms_norm ? unwatched.rms_norm : &plain::rms_norm;
  Tensor y = function(x, weight, eps);
  if (watches("norm"))
    watching->record(y, {x, weight}, [function, eps](const std::vector<Tensor>& inputs) {
      return function(inputs[0], inputs[1], eps);
    });
  return y;
}

Tensor watched_gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  const auto function = unwatched.gated_activation ? unwatched.gated_activation : &plain::gated_activation;
  Tensor y = function(name, gate, up);
  if (watches("activation"))
    watching->record(y, {gate, up}, [function, name = std::string(name)](const std::vector<Tensor>& inputs) {
      return function(name, inputs[0], inputs[1]);
    });
  return y;
}

/// Role of a libtorch operation in recomputation.
enum class Part {
  standalone,    // recomputed independently of other operations
  makes_scores,  // attention: computes scores from queries and keys
  on_scores,     // attention, if one of its inputs is derived from scores
};
struct Watched {
  const char* operation;
  Part part;
};

const Watched* find_watched(std::string_view name) {
  static const std::unordered_map<std::string_view, Watched> table = {
      {"aten::native_layer_norm", {"norm", Part::standalone}}, {"aten::silu", {"activation", Part::standalone}},
      {"aten::gelu", {"activation", Part::standalone}},        {"aten::bmm", {"attention", Part::makes_scores}},
      {"aten::mul", {"attention", Part::on_scores}},           {"aten::div", {"attention", Part::on_scores}},
      {"aten::tanh", {"attention", Part::on_scores}},          {"aten::add", {"attention", Part::on_scores}},
      {"aten::cat", {"attention", Part::on_scores}},           {"aten::_softmax", {"attention", Part::on_scores}},
      {"aten::masked_fill", {"attention", Part::on_scores}},   {"aten::_to_copy", {"attention", Part::on_scores}},
      {"aten::clone", {"attention", Part::on_scores}},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

/// Arguments of an operation, with its tensors stored separately.
struct Call final : at::ObserverContext {
  Part part{};
  std::vector<c10::IValue> arguments;                   // empty for a tensor; the size for a tensor list
  std::vector<std::pair<size_t, bool>> tensor_indices;  // indices of tensor arguments, and whether they are lists
  std::vector<Tensor> tensors;
};

std::unique_ptr<at::ObserverContext> begin_operation(const at::RecordFunction& operation) {
  if (!watching || !watching->is_active()) return nullptr;
  const Watched* const watched = find_watched(operation.name());
  if (!watched || !watches(watched->operation)) return nullptr;
  auto call = std::make_unique<Call>();
  call->part = watched->part;
  for (const c10::IValue& argument : operation.inputs()) {
    const size_t index = call->arguments.size();
    if (argument.isTensor()) {
      call->tensor_indices.emplace_back(index, false);
      call->tensors.push_back(argument.toTensor());
      call->arguments.emplace_back();
    } else if (argument.isTensorList()) {
      const auto list = argument.toTensorVector();
      call->tensor_indices.emplace_back(index, true);
      call->tensors.insert(call->tensors.end(), list.begin(), list.end());
      call->arguments.emplace_back(static_cast<int64_t>(list.size()));
    } else {
      call->arguments.push_back(argument);
    }
  }
  return call;
}

/// Runs an operation again, with `tensors` in place of the recorded call's tensors.
Tensor call_again(const c10::OperatorHandle& handle, const std::vector<c10::IValue>& arguments,
                  const std::vector<std::pair<size_t, bool>>& tensor_indices, const std::vector<Tensor>& tensors) {
  std::vector<c10::IValue> stack = arguments;
  auto next = tensors.begin();
  for (const auto& [index, is_list] : tensor_indices) {
    if (is_list) {
      const auto end = next + arguments[index].toInt();
      stack[index] = std::vector<Tensor>(next, end);
      next = end;
    } else {
      stack[index] = *next++;
    }
  }
  handle.callBoxed(&stack);
  return stack.front().toTensor();
}

void end_operation(const at::RecordFunction& operation, at::ObserverContext* context) {
  if (!context) return;
  auto& call = static_cast<Call&>(*context);
  const auto name = operation.operator_name();
  const auto& outputs = operation.outputs();
  if (!name || outputs.empty() || !outputs.front().isTensor()) return;
  const bool on_scores =
      std::ranges::any_of(call.tensors, [](const Tensor& tensor) { return watching->is_from_scores(tensor); });
  const bool by_weight =
      std::ranges::any_of(call.tensors, [](const Tensor& tensor) { return watching->is_persistent(tensor); });
  if (call.part == Part::makes_scores && (on_scores || by_weight))
    return;  // the GEMM with the values, or a linear layer
  if (call.part == Part::on_scores && !on_scores) return;
  const auto handle = c10::Dispatcher::singleton().findOp(*name);
  if (!handle) return;
  watching->record(
      outputs.front().toTensor(), call.tensors,
      [handle = *handle, arguments = std::move(call.arguments), tensor_indices = std::move(call.tensor_indices)](
          const std::vector<Tensor>& tensors) { return call_again(handle, arguments, tensor_indices, tensors); },
      /*from_scores=*/call.part != Part::standalone);
}

}  // namespace

WatchedOperations::WatchedOperations(SavedTensors* saved) {
  if (!saved || std::ranges::none_of(recomputed_operations(),
                                     [&](const std::string& operation) { return saved->recomputes(operation); }))
    return;
  watches_ = true;
  outer_ = std::exchange(watching, saved);
  outer_functions_ = unwatched;
  unwatched = fused;
  fused.rms_norm = watched_rms_norm;
  fused.gated_activation = watched_gated_activation;
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operation, end_operation)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

WatchedOperations::~WatchedOperations() {
  if (!watches_) return;
  at::removeCallback(callback_);
  fused = unwatched;
  unwatched = outer_functions_;
  watching = outer_;
}

}  // namespace modular
