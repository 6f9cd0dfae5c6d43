// Estimates the peak memory of a layout's fullest rank from a model profile, cheaply enough for thousands of layouts.
// Plans (runtime/plan/) then give exact numbers for the best layouts.
#pragma once

#include <cstdint>

#include "runtime/advise/layout.h"
#include "runtime/advise/model_profile.h"

namespace modular {

/// Memory in bytes, with the names of a plan's columns.
struct MemoryEstimate {
  double parameters = 0.0, gathered = 0.0, gradients = 0.0, unreduced = 0.0, optimizer = 0.0, activations = 0.0,
         working = 0.0;
  double peak = 0.0;  // on the device; the other fields are separate maxima
};

/// `rows` is the number of rows per micro-batch; at most `stored` micro-batches of a stage await their backward.
MemoryEstimate estimate_memory(const ModelProfile& model, const Layout& layout, double rows, int64_t stored);

}  // namespace modular
