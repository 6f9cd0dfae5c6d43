// Results of evaluating a model on the validation set.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace modular {

struct Evaluation {
  int64_t step = 0;                                          // the training step after which it was computed
  double loss = 0.0;                                         // nats/target; 0 if there are no targets
  int64_t targets = 0;                                       // number of targets
  std::vector<std::pair<std::string, double>> metrics = {};  // eval.metrics, e.g. {"accuracy", 0.91}
};

}  // namespace modular
