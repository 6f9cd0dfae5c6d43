// The learning rate over a run: linear warm-up, then one of several ways down to a floor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

struct Schedule {
  // What follows the warm-up. "cosine" (Loshchilov & Hutter, SGDR); "linear"; "constant"; "wsd", constant until the
  // last decay_steps, which fall linearly (Hu et al., MiniCPM); "inverse-sqrt", which ends nowhere (Vaswani et al.,
  // Attention is all you need).
  std::string kind = "cosine";
  double lr = 3e-4;          // the highest
  double min_lr = 0.0;       // the floor
  int64_t warmup_steps = 0;  // steps of the linear rise; the first step already learns
  int64_t decay_steps = 0;   // of wsd
  int64_t steps = 1;         // of the whole run

  /// The rate of step `step`, counted from 0. After the run's end that of its end.
  double at(int64_t step) const;

  /// Whether the rate of a step depends on how many the run has.
  bool depends_on_steps() const;
};

/// What Schedule::kind may be.
std::vector<std::string_view> schedule_kinds();

}  // namespace modular
