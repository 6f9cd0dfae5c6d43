#pragma once

#include <string_view>

namespace modular::cpu {

/// From here on has large products of float32 matrices made by the faster of libtorch's two libraries, in all of the
/// program. The rule stands in products.cc: it reads the processor and the operands' sizes alone, so that it is the
/// same in every run. MODULAR_CPU_PRODUCTS=mkl or =onednn in the environment asks for one of them. Calling it again
/// does nothing.
void install_products();

/// Who makes them, for people to read: "oneDNN" or "MKL".
std::string_view products_library();

}  // namespace modular::cpu
