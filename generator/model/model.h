// Converts the second parse to the plain model that weave and print work on.
#pragma once

#include <cstdint>

#include "generator/model/family_model.h"
#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
class NamespaceDecl;
}  // namespace clang

namespace modgen {

/// Fills a model from the flattened text at index `file`, which `compiler` has parsed.
FamilyModel read_model(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file, std::string name,
                       std::string prefix);

/// The namespace of the family whose flattened text is at index `file`; null if it has none.
const clang::NamespaceDecl* flattened_namespace(const clang::CompilerInstance& compiler, const Parsed& parsed,
                                                uint32_t file);

/// Checks in the flattened text at index `file` what TU_Prefix leaves out: that the arguments of each module holder
/// match a constructor of its class. Also checks that annotations mark only classes and members, and that no
/// declaration shadows a name that woven calls use. Reports errors to the compiler's diagnostics.
void check_code(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file);

}  // namespace modgen
