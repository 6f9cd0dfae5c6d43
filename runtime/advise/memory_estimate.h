// What a layout's fullest rank holds, estimated from a model's profile: good enough to pass over thousands of layouts;
// a plan (runtime/plan/) says it of those that are left.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// Bytes, under the names of a plan's columns.
struct MemoryEstimate {
  double parameters = 0.0, gathered = 0.0, gradients = 0.0, unreduced = 0.0, optimizer = 0.0, activations = 0.0,
         working = 0.0;
  double peak = 0.0;  // on the device; the others are each at their most
};

/// `stored` micro-batches of a stage wait for their backward at most; `rows` are those of a micro-batch.
MemoryEstimate estimate_memory(const ModelProfile& model, const Layout& layout, double rows, int64_t stored);

}  // namespace modular
