// Strings of a spec that are text for people: these alone name the family, and become another text in another family.
// All other strings are values, which code may compare.
#pragma once

#include <set>
#include <vector>

#include "generator/source/parsed.h"

namespace clang {
class NamespaceDecl;
class StringLiteral;
}  // namespace clang

namespace modgen {

struct Texts {
  std::vector<SourceSpan> messages;                // the tokens, as written
  std::set<const clang::StringLiteral*> literals;  // in addition those that macros make; looked up, never iterated
  bool are_read = false;                           // code reads what an exception says, other than to say it again
};

/// The texts of `space`. A string is one if its characters are all that is made of it, and only for an exception of a
/// library, a failed check or pretty_print: what conditions, lookups, lambdas and a spec's own functions get is not.
Texts collect_texts(const clang::NamespaceDecl& space, const clang::SourceManager& manager, const Parsed& parsed);

}  // namespace modgen
