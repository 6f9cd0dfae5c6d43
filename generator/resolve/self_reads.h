// Variables and members that are read by their own initializers. Compilers only warn of these, and of some alone.
#pragma once

#include <clang/Basic/SourceLocation.h>

#include <string>
#include <vector>

namespace clang {
class NamespaceDecl;
}

namespace modgen {

struct SelfRead {
  std::string name;
  clang::SourceLocation where;
};

/// What is written in `space`, in source order. Taking the address is not reading, nor is what a lambda does that holds
/// a reference.
std::vector<SelfRead> self_reads(const clang::NamespaceDecl& space);

}  // namespace modgen
