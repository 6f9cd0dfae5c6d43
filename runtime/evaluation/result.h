// What held-out samples say of a model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace modular {

struct Evaluation {
  int64_t step = 0;                                          // after which it was computed
  double loss = 0.0;                                         // nats per target; 0 where there is none
  int64_t targets = 0;                                       // of how many it is the mean
  std::vector<std::pair<std::string, double>> metrics = {};  // eval.metrics, e.g. {"accuracy", 0.91}
};

}  // namespace modular
