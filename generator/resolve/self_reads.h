// Variables and members that their own initializers read. Compilers only warn about these, and only about some.
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

/// The self-reads in `space`, in source order. Taking the address does not count, nor does a lambda that captures a
/// reference.
std::vector<SelfRead> self_reads(const clang::NamespaceDecl& space);

}  // namespace modgen
