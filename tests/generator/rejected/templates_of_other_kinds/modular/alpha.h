// A concept, an alias template and a variable template.
#pragma once

#include <type_traits>
#include <vector>

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

template <class T>
concept AlphaNumber = std::is_arithmetic_v<T>;
template <class T>
using AlphaList = std::vector<T>;
template <class T>
constexpr int64_t kAlphaSize = sizeof(T);

}  // namespace modular::alpha
