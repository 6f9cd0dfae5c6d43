// The options of all optimizers, and the learning rate schedule.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

/// Options for a subset of the parameters.
struct ParameterGroup {
  std::vector<std::string> match;      // module paths, in which "*" matches one component
  double lr_scale = 1.0;               // factor of the learning rate
  std::optional<double> weight_decay;  // for every parameter of the group; default: as outside of the group

  bool operator==(const ParameterGroup&) const = default;
};

struct OptimizerOptions {
  std::string name = "adamw";
  // For matrices and tables only: norms and biases (one dimension) and the rates of state spaces do not
  // decay.
  double weight_decay = 0.1;
  std::vector<ParameterGroup> groups;  // the last group that matches a parameter applies

  // AdamW, and Muon for parameters other than matrices of layers.
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;

  // SGD and Muon.
  double momentum = 0.95;
  bool nesterov = true;

  // Adafactor. The decay of the second moment at step t is 1 - t^beta2_decay. Variances are at least eps1 squared, and
  // the mean of their factors is at least eps1. The rate is proportional to the root mean square of the parameter, or
  // to eps2 if that is larger. The root mean square of an update is at most clip_threshold before it is multiplied by
  // the rate.
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon(), eps2 = 1e-3;
  double clip_threshold = 1.0;

  // Muon. "original": an update [rows, columns] is multiplied by sqrt(max(1, rows / columns)). "match_rms_adamw": it is
  // multiplied by 0.2 * sqrt(max(rows, columns)), which matches the size of AdamW's updates.
  int64_t ns_steps = 5;
  std::string adjust_lr = "match_rms_adamw";
};

/// The learning rate over a run: linear warm-up, then a schedule that decays to a floor.
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
