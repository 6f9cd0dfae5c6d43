#pragma once

#include <string_view>

namespace modular::cpu {

/// From here on has large products of matrices made by the fastest that there is for the processor, in all of the
/// program: our kernels for AMX, oneDNN or MKL. The rule stands in products.cc: it reads the processor and the
/// operands' types and sizes alone, so that it is the same in every run. MODULAR_CPU_PRODUCTS=amx, =onednn or =mkl in
/// the environment asks for one of them. Calling it again does nothing.
void install_products();

/// Who makes them, for people to read: "AMX", "oneDNN" or "MKL".
std::string_view products_library();

}  // namespace modular::cpu
