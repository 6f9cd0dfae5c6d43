// A record of the tensors that the statements of a generated file compute. `modcheck --execute` compiles the file with
// traced() around what its statements assign and return, so that a difference can be reported at its line.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "checks/execute/contract_in_double.h"

namespace modular::execute {

/// A tensor that a statement computed, and the gradient that it got.
struct TracedTensor {
  int line = 0;
  Tensor value, gradient;
};

/// The traced tensors of a forward, in order. A deque, because hooks of the backward keep references to the elements.
using Trace = std::deque<TracedTensor>;

/// Where this thread records; null if it does not.
constinit inline thread_local Trace* tracing = nullptr;

void record(int line, const Tensor& value);

/// Records the value of a statement at `line` if it is a tensor, and returns it.
template <class T>
constexpr T traced(int line, T&& value) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, Tensor>)
    if (tracing && value.defined()) record(line, value);
  return std::forward<T>(value);
}

/// A traced tensor that differs.
struct TraceDifference {
  int line = 0;
  bool is_gradient = false;
};

/// The first tensor that the ranks computed differently than one process, or, if there is none, the first such gradient
/// in the order of the backward. `ranks` has a list for each tensor-parallel rank, with a trace for each part of the
/// batch or of the sequence. Tensors of parts may be equal, slices along one dimension, or summands; those of ranks may
/// be full, slices along one dimension, or partial sums.
std::optional<TraceDifference> first_difference(const Trace& alone, const std::vector<std::deque<Trace>>& ranks,
                                                double tolerance);

}  // namespace modular::execute
