// Checks for errors in flattened code that Clang does not report for a prefix translation unit (TU_Prefix).
#pragma once

#include <cstdint>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
}  // namespace clang

namespace modgen {

/// Checks in the flattened text at index `file` what TU_Prefix leaves out: that the arguments of each module holder
/// match a constructor of its class. Also checks that annotations mark only classes and members, and that no
/// declaration shadows a name that woven calls use. Reports errors to the compiler's diagnostics.
void check_code(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file);

}  // namespace modgen
