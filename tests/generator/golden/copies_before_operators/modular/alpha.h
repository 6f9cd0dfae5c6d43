// The base of beta.h: a method that returns a copy of a field.
#pragma once

#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaLines {
  std::vector<std::string> lines;
  AlphaLines& operator<<(std::string line) {
    lines.push_back(std::move(line));
    return *this;
  }
};
struct AlphaReport {
  AlphaLines lines;
  int64_t count = 0;
  virtual ~AlphaReport() = default;
  virtual AlphaLines text() { return lines; }
  virtual int64_t total() const { return count; }
};

}  // namespace modular::alpha
