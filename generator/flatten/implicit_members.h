// Members that C++ declares implicitly in a class that derives from another one, where a flattened class has the base's
// text.
#pragma once

#include <vector>

namespace clang {
class CXXMethodDecl;
class CXXRecordDecl;
class FunctionDecl;
class NamedDecl;
}  // namespace clang

namespace modgen {

class Family;
class Specs;
struct Entity;
struct Member;

enum class SpecialMember {
  none,
  default_constructor,
  copy_constructor,
  move_constructor,
  copy_assignment,
  move_assignment,
  destructor,
};

SpecialMember special_member(const clang::NamedDecl* member);

/// Whether the class itself declares that member.
bool declares(const clang::CXXRecordDecl& record, SpecialMember kind);

/// The member that C++ runs for an object of the class, which it may declare implicitly; null if there is none, or if
/// it is deleted.
const clang::CXXMethodDecl* find_special_member(const Specs& specs, const clang::CXXRecordDecl& record,
                                                SpecialMember kind);

/// Whether default member initializers and default constructors of what the class itself declares throw nothing, as far
/// as C++ knows.
bool initializes_without_throwing(const Specs& specs, const clang::CXXRecordDecl& record);

/// Makes the special members in `members`, all of bases of `level`, those that C++ declares implicitly in the class of
/// that level: they are public. Leaves out the constructors that it does not inherit. A class that declares no
/// constructor and inherits none needs a base with a default constructor, which is an error otherwise.
void inherit_special_members(const Family& family, const Entity& entity, size_t level, bool inherits_constructors,
                             std::vector<Member>& members);

/// Leaves out the inherited constructors in `members` that the constructor `own` hides: C++ prefers it for the same
/// arguments. An error if it does so for some of their arguments only.
void hide_inherited_constructors(const Family& family, const Entity& entity, const Member& own,
                                 std::vector<Member>& members);

/// Rejects copies, moves, assignments and destructors of a base that are noexcept, where those that C++ declares
/// implicitly in this class are not.
void check_exception_specifications(const Family& family, const Entity& entity, const std::vector<Member>& members);

}  // namespace modgen
