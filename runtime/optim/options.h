// The settings of all optimizers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace modular {

/// Settings of its own for some of the parameters.
struct ParameterGroup {
  std::vector<std::string> match;      // paths in the module tree, in which "*" is any one component
  double lr_scale = 1.0;               // times the learning rate
  std::optional<double> weight_decay;  // of every parameter of the group; not given: as outside of it

  bool operator==(const ParameterGroup&) const = default;
};

struct OptimizerOptions {
  std::string name = "adamw";
  // Of matrices and tables only: norms and biases (one dimension) do not decay, nor do state spaces' rates, "A_log".
  double weight_decay = 0.1;
  std::vector<ParameterGroup> groups;  // the last one that matches a parameter counts

  // AdamW, and Muon for what is no matrix of a layer.
  double beta1 = 0.9, beta2 = 0.95;
  double eps = 1e-8;

  // SGD and Muon.
  double momentum = 0.95;
  bool nesterov = true;

  // Adafactor. The second moment's decay at step t is 1 - t^beta2_decay. Variances are at least eps1 squared and their
  // factors' mean at least eps1; the rate grows with the root mean square of the parameter, or eps2 where that is more;
  // the root mean square of an update is at most clip_threshold, before the rate.
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon(), eps2 = 1e-3;
  double clip_threshold = 1.0;

  // Muon. "original": an update [rows, columns] times the root of the larger of 1 and rows / columns.
  // "match_rms_adamw": times 0.2 and the root of the larger of rows and columns, which makes it as large as AdamW's.
  int64_t ns_steps = 5;
  std::string adjust_lr = "match_rms_adamw";
};

}  // namespace modular
