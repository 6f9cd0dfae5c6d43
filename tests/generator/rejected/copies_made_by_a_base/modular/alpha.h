// The base of beta.h: methods that copy their object.
#pragma once

#include <memory>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPlan {
  virtual ~AlphaPlan() = default;
  virtual int64_t cost() const { return steps; }
  AlphaPlan snapshot() const { return *this; }
  int64_t steps = 1;
};
struct AlphaLog {
  virtual ~AlphaLog() = default;
  virtual int64_t cost() const { return steps; }
  void save() { history.push_back(std::make_shared<AlphaLog>(*this)); }
  int64_t steps = 1;
  std::vector<std::shared_ptr<AlphaLog>> history;
};

}  // namespace modular::alpha
