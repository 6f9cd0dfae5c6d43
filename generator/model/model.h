// From the second parse to the plain model that weave and print work on.
#pragma once

#include "generator/model/family_model.h"
#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
}  // namespace clang

namespace modgen {

/// Fills a model from the flattened text at index `file`, which `compiler` has parsed.
FamilyModel read_model(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file, std::string name,
                       std::string prefix);

/// Checks what TU_Prefix leaves out: that each construction of a module by its holder fits a constructor of its class.
/// Errors go to the compiler's diagnostics.
void check_holders(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file);

}  // namespace modgen
