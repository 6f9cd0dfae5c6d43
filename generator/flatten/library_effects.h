// Side effects of library code: through an object of one of its types, and by one of its functions.
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <optional>
#include <set>

#include "generator/resolve/origins.h"

namespace clang {
class CXXMethodDecl;
class CXXOperatorCallExpr;
class CXXRecordDecl;
class Decl;
class Expr;
class FunctionDecl;
class QualType;
class Stmt;
}  // namespace clang

namespace modgen {

enum class Reach {
  itself,    // numbers, strings, containers of them: the object and its copies are independent
  shared,    // modules and other objects of libraries, which several names may refer to
  anything,  // pointers, references, iterators, views, functions: any variable
};

/// Variables that may be modified or read through an object of that type. Types that are not known reach anything.
Reach get_reach(clang::QualType type);

/// Whether an object of a type that reaches anything only reads there: a const_iterator, a pointer to a const object.
bool only_reads(clang::QualType type);

/// Whether the destructor of an object of that type does more than free its memory.
bool acts_at_its_end(clang::QualType type);

/// Whether the class of the type, or of a field, has an assignment of its own, which may do other than initialize.
bool has_own_assignment(clang::QualType type);

/// Whether `code` makes a temporary object whose destructor acts at the end of the statement.
bool has_acting_temporary(const clang::Stmt& code);

/// Whether `code`, a statement or a body, declares a variable whose destructor acts where the code around it ends, as a
/// guard's does. Variables of nested blocks do not count.
bool leaves_a_guard(const clang::Stmt& code);

/// The name of the algorithm of std::ranges that is called; empty for other calls.
std::optional<llvm::StringRef> range_algorithm(const clang::CXXOperatorCallExpr& call);

/// Whether a function of the standard library only reads where its iterators point.
bool is_reading_algorithm(llvm::StringRef name);

/// Whether an exception would end the program at the function's boundary.
bool cannot_throw(const clang::FunctionDecl& function);

/// Whether an exception may leave the function of a library, other than for lack of memory in a copy.
bool library_may_throw(const clang::FunctionDecl& callee);

/// Adds the classes of specs whose code the function of a library may run: of elements and of what it is passed.
void add_classes_run_by(const clang::FunctionDecl& callee, std::set<const clang::CXXRecordDecl*>& found);

/// Whether a function of that name changes state of the process that others read: setenv.
bool writes_process(llvm::StringRef name);

/// Whether a function of that name reads state of the process that others set: getenv, get_default_dtype.
bool reads_process(llvm::StringRef name);

/// Whether a function of the standard library throws for some arguments that are not misuse.
bool throws_by_name(llvm::StringRef name);

/// Whether a container makes as many elements as a number says that may be negative.
bool counts_elements(const clang::CXXMethodDecl& method, llvm::ArrayRef<const clang::Expr*> arguments);

/// Whether a method of a container is for containers that have an element.
bool needs_element(llvm::StringRef name);

/// Whether a method returns a part of its object and modifies nothing by itself.
bool is_accessor(llvm::StringRef name);

/// Whether a method of a container inserts the element that it does not find: map's operator[].
bool inserts_missing(const clang::CXXMethodDecl& subscript);

/// Whether a function of that name draws random numbers.
bool is_random(llvm::StringRef name);

/// Whether the parameter is a forwarding reference that does not modify its argument. std::move and similar functions
/// do, or let others do so.
bool forwards(const clang::FunctionDecl& callee, unsigned index);

}  // namespace modgen
