// Overloads that C++ ranks by the class that they take: friends, operators and functions of a base, next to those of a
// class that derives from it. A flattened class is its base, so that they would rank equally.
#pragma once

#include <string>
#include <vector>

namespace clang {
class Decl;
class FunctionDecl;
}  // namespace clang

namespace modgen {

class Family;
struct Entity;
struct Member;

/// The name of a friend function that the class of `level` defines, with its parameters' types in this family's names;
/// empty for other declarations. A friend replaces a base's with the same signature.
std::string friend_signature(const Family& family, const Entity& entity, size_t level, const clang::Decl& decl);

/// Rejects friends and operators among `members` of which C++ chooses another one than the flattened class has chosen:
/// those of a base that take the base, where a library or a class below has an overload for the class itself.
void check_overloads(const Family& family, const Entity& entity, const std::vector<Member>& members);

/// The same for free functions, and for classes with several call operators, of which the class that derives is passed
/// to another one. For the whole family, once all of its classes are known.
void check_overloads(const Family& family);

/// Whether there are arguments that both functions, methods of `entity`, may take.
bool may_take_same(const Family& family, const Entity& entity, const clang::FunctionDecl& one,
                   const clang::FunctionDecl& other);

}  // namespace modgen
