// The members of a flattened class: the declarations of its levels, merged from the root to the most derived.
#pragma once

#include <clang/Basic/Specifiers.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/flatten/family.h"

namespace modgen {

/// A member in its most derived declaration.
struct Member {
  enum class Kind { field, method, constructor, other };
  Kind kind = Kind::other;
  std::string name;        // may be empty
  std::string signature;   // types of a method's parameters, in this family's names
  std::string qualifiers;  // const, & and && after a method's parameters
  size_t level = 0;
  const Slice* slice = nullptr;
  const clang::NamedDecl* decl = nullptr;
  clang::AccessSpecifier access = clang::AS_public;
  bool blank_before = false;
  std::vector<std::pair<size_t, SourceSpan>> above;  // comments before it that are not its own, with their levels
  bool redefines = false;
  bool is_new = false;                // a method that replaces none and is not marked REPLACES
  std::string near = {};              // name of an inherited method that a new one resembles
  bool before_inherited = false;      // a field that is initialized before its class's base
  std::string friend_signature = {};  // of a friend function that the class defines
  // A default constructor of a base, which the class of that level, below it, has as the one that C++ declares
  // implicitly.
  std::optional<size_t> implied_by = {};
  SourceSpan inherited_comment;  // comment of the method that this one redefines
  size_t comment_level = 0;
  std::vector<std::pair<size_t, SourceSpan>>
      inherited_annotations;  // annotations of the field that this one redeclares
};

struct MergedMembers {
  std::vector<Member> members;            // in the order of the flattened class
  std::deque<std::vector<Slice>> slices;  // slices of each level's class, root first; `members` points into them
};

/// The members of `entity`. Members that a level removes are recorded in entity.removed. Members that cannot be merged
/// are errors.
MergedMembers merge_members(const Family& family, Entity& entity);

/// Rejects a member that has the name of an inherited one, and cannot replace it: one of the two is a type, or a method
/// where the other is none.  (replaced_members.cc)
void check_replaced(const Family& family, const Entity& entity, const Member& inherited, const Member& member);

/// Leaves out the methods among `members` that C++ hides behind one of their name, if no code that the family keeps
/// calls them. If some does, and both may take the same arguments, that is an error. `reintroduced` has the names that
/// a level's using-declarations make visible.  (hidden_members.cc)
void drop_hidden_members(const Family& family, Entity& entity,
                         const std::map<size_t, std::set<std::string>>& reintroduced, std::vector<Member>& members);

/// A type that level `level` declares again, at `where`.
struct ReplacedType {
  Member inherited;
  size_t level;
  SourceSpan where;
};
/// Whether a type is declared again as another one.
bool replaces_type(const Family& family, const Entity& entity, const Member& inherited, const Member& member);
/// Rejects the new declaration if inherited ones among `members`, those of the flattened class, name the type.
void check_replaced_type(const Family& family, const Entity& entity, const ReplacedType& type,
                         const std::vector<Member>& members);

/// The annotations on `decl`.
std::vector<AnnotationMacro> annotations_on(const clang::Decl& decl, const Family& family);

}  // namespace modgen
