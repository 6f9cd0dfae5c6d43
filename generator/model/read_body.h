// Converts function bodies from Clang's AST to plain values.
#pragma once

#include <clang/AST/PrettyPrinter.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generator/model/body.h"
#include "generator/model/family_model.h"

namespace clang {
class ASTContext;
class CXXRecordDecl;
class Decl;
class Expr;
class FunctionDecl;
class NamespaceDecl;
class QualType;
}  // namespace clang

namespace modgen {

/// Names of types and functions, each computed once.
class Declarations {
 public:
  explicit Declarations(const clang::ASTContext& context);

  /// Canonical name without reference and const; flattened families have their final names.
  const std::string& type_name(clang::QualType type);
  /// Where `function` is declared, its name and its signature; for a template instance, those of the instance.
  const Callee& callee(const clang::FunctionDecl& function);

 private:
  clang::PrintingPolicy policy_;
  std::unordered_map<const void*, std::string> types_;                // never iterated
  std::unordered_map<const clang::FunctionDecl*, Callee> functions_;  // never iterated
};

/// Where a function, variable or class is declared. A lambda's methods have no home.
Callee::Home get_home(const clang::Decl& declaration);

/// Declarations inside others: classes inside classes and functions, and friends.
class InnerDeclarations {
 public:
  /// Those in `space`, without instances of templates.
  explicit InnerDeclarations(const clang::NamespaceDecl& space);

  /// Gives each class inside a function a name that begins with the function's and that no other class has. Types are
  /// compared by name, and Clang's names of such types do not include where they are declared.
  void name_local_classes();

  /// Classes inside classes and functions.
  const std::vector<clang::CXXRecordDecl*>& classes() const { return classes_; }
  /// Functions that are defined in a friend declaration.
  const std::vector<const clang::FunctionDecl*>& friends() const { return friends_; }

 private:
  std::vector<clang::CXXRecordDecl*> classes_;
  std::vector<const clang::FunctionDecl*> friends_;
};

/// Reads the body of `function`, whose definition is in a single file, and fills in `parameters`. Spans are offsets
/// into that file, with index `file`.
Body read_body(const clang::FunctionDecl& function, Declarations& declarations, uint32_t file,
               std::vector<Parameter>& parameters);

/// Reads a value that no function evaluates, such as a default member initializer.
Expr read_value(const clang::Expr& value, const clang::ASTContext& context, Declarations& declarations, uint32_t file);

/// Whether the class derives from torch::nn::Module.
bool is_module_class(const clang::CXXRecordDecl& record);

/// How a variable of that type is bound to its initializer.
Binding to_binding(clang::QualType type);

/// The tasks that runtime/model/tasks.h knows, in its order.
std::vector<KnownTask> known_tasks(const clang::ASTContext& context);

/// The types that a config field can have, which are those that ConfigValue in runtime/model/config.h points to: each
/// as canonical type and as written there.
std::vector<std::pair<std::string, std::string>> config_field_types(const clang::ASTContext& context,
                                                                    Declarations& declarations);

}  // namespace modgen
