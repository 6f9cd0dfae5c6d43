// The learning rate over a run: linear warm-up, then a cosine (Loshchilov & Hutter, SGDR) down to a floor.
#pragma once

#include <cstdint>

namespace modular {

struct Schedule {
  double lr = 3e-4;          // the highest
  double min_lr = 0.0;       // where the cosine ends
  int64_t warmup_steps = 0;  // steps of the linear rise; the first step already learns
  int64_t steps = 1;         // of the whole run

  /// The rate of step `step`, counted from 0. Stays at min_lr after the run's end.
  double at(int64_t step) const;
};

}  // namespace modular
