// The classes of specs of which an object holds objects.
#pragma once

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <vector>

namespace modgen {

/// The definition of the class that `type` is, refers to or points to; null for other types.
const clang::CXXRecordDecl* get_class(clang::QualType type);

/// Whether the context is the namespace of a spec.
bool is_namespace_of_spec(const clang::DeclContext& context);

/// Whether a spec's namespace declares the class. One inside another class keeps its bases.
bool is_class_of_spec(const clang::CXXRecordDecl& record);

/// Whether code of a spec declares the function.
bool is_declared_by_specs(const clang::FunctionDecl& function);

/// Whether the class is the prelude's Config or derives from it. Configs convert to one another.
bool is_config(const clang::CXXRecordDecl& record);

/// The types among template arguments.
std::vector<clang::QualType> get_types(llvm::ArrayRef<clang::TemplateArgument> arguments);

/// Adds the classes of specs, without configs, that `type` is, leads to or holds.
void add_classes(clang::QualType type, std::vector<const clang::CXXRecordDecl*>& found);

/// Adds the classes of specs, without configs, of which an object of `type` has objects of its own: the type itself,
/// the elements of an array or a container, not what a pointer or a reference leads to.
void add_held(clang::QualType type, std::vector<const clang::CXXRecordDecl*>& found);

/// The bodies of the methods that the class declares, wherever they are defined.
std::vector<const clang::Stmt*> get_method_bodies(const clang::CXXRecordDecl& record);

/// Whether an object's class is known to be that of its expression, and not one that derives from it.
bool has_exact_class(const clang::Expr& object);

/// Whether a call of the method, a spec's, may run an overrider; `is_exact` is whether the object has its exact class.
bool may_be_overridden(const clang::CXXMethodDecl& method, bool is_exact);

}  // namespace modgen
