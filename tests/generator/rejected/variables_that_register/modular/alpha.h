// The base of beta.h: variables whose initializers register something.
#pragma once

#include <string>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

inline std::vector<std::string> alpha_names;

struct AlphaRegistrar {
  explicit AlphaRegistrar(const char* name) { alpha_names.push_back(name); }
};

inline int64_t alpha_next() { return static_cast<int64_t>(alpha_names.size()); }
inline int64_t alpha_id() {
  alpha_names.push_back("id");
  return alpha_next();
}

inline const AlphaRegistrar kAlphaFirst{"first"};
inline const int64_t kAlphaQuery = alpha_id();
inline const int64_t kAlphaUnused = 3;

struct AlphaRow {
  std::vector<std::string> names() const { return alpha_names; }
};

}  // namespace modular::alpha
