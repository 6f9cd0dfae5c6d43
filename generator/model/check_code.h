// Errors in flattened code that Clang does not find where a translation unit is a prefix (TU_Prefix).
#pragma once

#include <cstdint>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
}  // namespace clang

namespace modgen {

/// Checks in the flattened text at index `file` what TU_Prefix leaves out: that each construction of a module by its
/// holder fits a constructor of its class. And that annotations mark what they can, and that woven calls find what they
/// name. Errors go to the compiler's diagnostics.
void check_code(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file);

}  // namespace modgen
