// Members that C++ has once per object or class, and a flattened class would have differently: copies, comparisons and
// destructors of a base, and its static variables.
#pragma once

#include <vector>

namespace clang {
class FieldDecl;
}

namespace modgen {

class Family;
struct Entity;
struct Member;
struct SourceSpan;

/// Rejects members of a base for which C++ treats the base's part of an object separately, unless the flattened class
/// does the same: copies and comparisons of that part alone, and a destructor that runs after the derived class's.
/// Rejects members that take the base, and fields that C++ sets to zero.
void check_special_members(const Family& family, const Entity& entity);

/// Rejects an initializer of a field that redeclares an `inherited` one if it is not the same where that one's ran,
/// which is before the base's constructor, or if that one's does something besides.
void check_redeclared(const Family& family, const clang::FieldDecl& field, const clang::FieldDecl* inherited,
                      SourceSpan where);

/// Rejects static variables that classes of the family share: flattened, each would have its own.
void check_shared_variables(const Family& family, const Entity& entity, const std::vector<Member>& members);

}  // namespace modgen
