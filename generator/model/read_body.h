// Converts function bodies from Clang's AST to plain values.
#pragma once

#include <clang/AST/PrettyPrinter.h>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generator/model/body.h"

namespace clang {
class ASTContext;
class CXXRecordDecl;
class FunctionDecl;
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

/// Reads the body of `function`, whose definition is in a single file, and fills in `parameters`. Spans are offsets
/// into that file, with index `file`.
Body read_body(const clang::FunctionDecl& function, Declarations& declarations, uint32_t file,
               std::vector<Parameter>& parameters);

/// Whether the class derives from torch::nn::Module.
bool is_module_class(const clang::CXXRecordDecl& record);

/// How a variable of that type is bound to its initializer.
Binding to_binding(clang::QualType type);

/// The tasks that runtime/model/tasks.h knows, in its order.
std::vector<std::string> known_tasks(const clang::ASTContext& context);

/// The types that a config field can have, which are those that ConfigValue in runtime/model/config.h points to: each
/// as canonical type and as written there.
std::vector<std::pair<std::string, std::string>> config_field_types(const clang::ASTContext& context,
                                                                    Declarations& declarations);

}  // namespace modgen
