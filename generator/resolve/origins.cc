#include "generator/resolve/origins.h"

#include <clang/AST/DeclCXX.h>

#include <algorithm>

namespace modgen {

bool derives_from(const clang::CXXRecordDecl& record, std::string_view name) {
  if (record.getQualifiedNameAsString() == name) return true;
  if (!record.hasDefinition()) return false;
  return std::any_of(record.bases_begin(), record.bases_end(), [&](const clang::CXXBaseSpecifier& base) {
    const auto* from = base.getType()->getAsCXXRecordDecl();
    return from && derives_from(*from, name);
  });
}

std::vector<llvm::StringRef> spaces_around(const clang::Decl& decl) {
  std::vector<llvm::StringRef> names;
  for (const clang::DeclContext* at = decl.getDeclContext(); at; at = at->getParent())
    if (const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(at); space && !space->isInline())
      names.insert(names.begin(), space->getName());
  return names;
}

bool is_of_spec(const clang::Decl& decl) {
  const std::vector<llvm::StringRef> names = spaces_around(decl);
  return names.size() > 1 && names[0] == "modular" && names[1] != "nn";
}

bool is_of_standard(const clang::Decl& decl) {
  const std::vector<llvm::StringRef> names = spaces_around(decl);
  return !names.empty() && (names[0] == "std" || names[0] == "__gnu_cxx");
}

bool is_of_c10(const clang::Decl& decl) {
  const std::vector<llvm::StringRef> names = spaces_around(decl);
  return !names.empty() && names[0] == "c10";
}

}  // namespace modgen
