// Where a declaration comes from: a spec, the contract, libtorch, the standard library.
#pragma once

#include <llvm/ADT/StringRef.h>

#include <vector>

namespace clang {
class Decl;
}  // namespace clang

namespace modgen {

/// The enclosing namespaces, outermost first, without inline and unnamed ones.
std::vector<llvm::StringRef> spaces_around(const clang::Decl& decl);

/// Whether code of a family has the declaration.
bool is_of_spec(const clang::Decl& decl);

/// Whether the standard library declares it.
bool is_of_standard(const clang::Decl& decl);

/// Whether c10, the base of libtorch, declares it.
bool is_of_c10(const clang::Decl& decl);

}  // namespace modgen
