// The members of a flattened class: what its levels declare, merged from the root to the most derived.
#pragma once

#include <clang/Basic/Specifiers.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "generator/flatten/family.h"

namespace modgen {

/// A member as the last level that declares it wrote it.
struct Member {
  enum class Kind { field, method, constructor, other };
  Kind kind = Kind::other;
  std::string name;       // may be empty
  std::string signature;  // of a method: its parameters' types, in this family's names
  size_t level = 0;
  const Slice* slice = nullptr;
  const clang::NamedDecl* decl = nullptr;
  clang::AccessSpecifier access = clang::AS_public;
  bool blank_before = false;
  std::vector<std::pair<size_t, SourceSpan>> above;  // comments before it that are not its own, with their levels
  bool redefines = false;
  bool is_new = false;            // a method that replaces none and says nothing of it
  std::string near = {};          // what an inherited one is called that such a method nearly has the name of
  bool before_inherited = false;  // of a field that is initialized before its class's base
  SourceSpan inherited_comment;   // of the method that this one redefines
  size_t comment_level = 0;
  std::vector<std::pair<size_t, SourceSpan>> inherited_annotations;  // of the field that this one redeclares
};

struct MergedMembers {
  std::vector<Member> members;            // in the order of the flattened class
  std::deque<std::vector<Slice>> slices;  // of each level's class, root first; `members` point into them
};

/// The members of `entity`. Those that a level removes are noted in entity.removed; what cannot be merged is rejected.
MergedMembers merge_members(const Family& family, Entity& entity);

/// The annotations on `decl`.
std::vector<AnnotationMacro> annotations_on(const clang::Decl& decl, const Family& family);

/// Annotations that exclude each other: a redeclaration that names one of them inherits none of the group.
std::string annotation_group(const std::string& kind);

}  // namespace modgen
