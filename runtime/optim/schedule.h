// The learning rate over a run: linear warm-up, then a schedule that decays to a floor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

struct Schedule {
  // Schedule after the warm-up: "cosine" (Loshchilov & Hutter, SGDR); "linear"; "constant"; "wsd", constant until a
  // linear decay over the last decay_steps (Hu et al., MiniCPM); "inverse-sqrt", which does not depend on the number of
  // steps (Vaswani et al., Attention is all you need).
  std::string kind = "cosine";
  double lr = 3e-4;          // the highest rate
  double min_lr = 0.0;       // the floor
  int64_t warmup_steps = 0;  // steps of the linear rise; the first step's rate is above 0
  int64_t decay_steps = 0;   // for wsd
  int64_t steps = 1;         // total steps of the run

  /// The rate of step `step`, counted from 0. After the end of the run, the rate at its end.
  double at(int64_t step) const;

  /// Whether the rate of a step depends on the run's number of steps.
  bool depends_on_steps() const;
};

/// The valid values of Schedule::kind.
std::vector<std::string_view> schedule_kinds();

}  // namespace modular
