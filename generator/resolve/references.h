// Every token of the specs that names a declaration, as written: the tokens that flattening may have to change.
#pragma once

#include <string>
#include <vector>

#include "generator/resolve/remakes.h"
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
    name,         // of a declaration at namespace scope
    qualifier,    // `llama::`, with its colons
    member,       // of a class
    registered,   // a string: the name that register_module("name", …) or its like gives; the target is the callee
    remade,       // `remake(q_proj,` with its comma; the target is the member
    marker,       // REPLACES with the white space after it; the target is the member that it marks
    config_flag,  // an expression that reads a bool of a config; the references in it follow
  };
  Kind kind;
  SourceSpan where;
  const clang::NamedDecl* target;
  bool of_this = false;                          // a member of `this`, which is not written
  bool in_macro_body = false;                    // the token is in a macro's definition; `where` is the macro's call
  const clang::CXXRecordDecl* object = nullptr;  // of a member of another object than `this`: that object's class
  Registration registration = {};                // of what is remade: how the member was registered
  std::string parameter = {};                    // that a config's flag is the argument for
  bool is_changed = false;                       // of a config's flag: it is written, or its address taken
};

/// The references in `space`, in source order, each place once. Declarations of the standard library, libtorch and the
/// prelude are left out: `is_ours` says which files count, by the target's position.
std::vector<Reference> collect_references(const clang::NamespaceDecl& space, const clang::SourceManager& manager,
                                          const Parsed& parsed);

/// The strings in `space` that are prose for people: what is thrown, checked with TORCH_CHECK or pretty-printed.
std::vector<SourceSpan> collect_messages(const clang::NamespaceDecl& space, const clang::SourceManager& manager,
                                         const Parsed& parsed);

}  // namespace modgen
