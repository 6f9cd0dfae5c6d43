// Where a declaration comes from: a spec, the contract, libtorch, the standard library; and what a class derives from.
#pragma once

#include <llvm/ADT/StringRef.h>

#include <string_view>
#include <vector>

namespace clang {
class CXXRecordDecl;
class Decl;
}  // namespace clang

namespace modgen {

/// Whether the class is the one of that qualified name, such as "std::exception", or derives from it.
bool derives_from(const clang::CXXRecordDecl& record, std::string_view name);

/// The enclosing namespaces, outermost first, without inline and unnamed ones.
std::vector<llvm::StringRef> spaces_around(const clang::Decl& decl);

/// Whether code of a family has the declaration.
bool is_of_spec(const clang::Decl& decl);

/// Whether the standard library declares it.
bool is_of_standard(const clang::Decl& decl);

/// Whether c10, the base of libtorch, declares it.
bool is_of_c10(const clang::Decl& decl);

}  // namespace modgen
