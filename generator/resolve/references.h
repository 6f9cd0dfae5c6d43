// Every token of the specs that names a declaration: the tokens that flattening may have to change.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "generator/resolve/registrations.h"
#include "generator/source/parsed.h"

namespace clang {
class Decl;
class CXXRecordDecl;
class NamedDecl;
class NamespaceDecl;
}  // namespace clang

namespace modgen {

struct Reference {
  enum class Kind {
    name,         // a declaration at namespace scope
    qualifier,    // `llama::`, with its colons
    space,        // a namespace that a function's `using namespace` or namespace alias names
    member,       // a member of a class
    registered,   // a string: the name passed to register_module("name", …) or similar; the target is the callee
    remake,       // `remake(q_proj,` with its comma; the target is the member
    marker,       // REPLACES and the whitespace after it; the target is the member that it marks
    config_flag,  // an expression that reads a bool of a config; the references in it follow
  };
  Kind kind;
  SourceSpan where;
  const clang::NamedDecl* target;
  bool of_this = false;                          // a member of an implicit `this`
  bool in_macro_body = false;                    // the token is in a macro's definition; `where` is the macro's call
  const clang::CXXRecordDecl* object = nullptr;  // class of the object if it is not `this`
  Registration registration = {};                // for a remake: the member's inherited registration
  std::string parameter = {};                    // name of the parameter that a config flag is passed to
  bool is_changed = false;                       // the config flag is written, or its address is taken
};

/// The references in `space`, in source order, each location once. Targets in the standard library, libtorch and the
/// prelude are left out.
std::vector<Reference> collect_references(const clang::NamespaceDecl& space, const clang::SourceManager& manager,
                                          const Parsed& parsed);

/// The names of functions that templates in `space` call, and that C++ finds by the types of their arguments.
std::set<std::string> names_called_by_arguments(const clang::NamespaceDecl& space);

}  // namespace modgen
