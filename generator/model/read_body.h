// From Clang's syntax tree to a plain body.
#pragma once

#include <clang/AST/PrettyPrinter.h>

#include <string>
#include <unordered_map>

#include "generator/model/body.h"

namespace clang {
class ASTContext;
class CXXRecordDecl;
class FunctionDecl;
class QualType;
}  // namespace clang

namespace modgen {

/// Names of types and functions, each made once.
class Declarations {
 public:
  explicit Declarations(const clang::ASTContext& context);

  /// Canonical, without reference and const; flattened families under the names that they will have.
  const std::string& type_name(clang::QualType type);
  /// Of whom `function` is, its name and its signature; for one that a template made those of that instance.
  const Callee& callee(const clang::FunctionDecl& function);

 private:
  clang::PrintingPolicy policy_;
  std::unordered_map<const void*, std::string> types_;                // looked up, never walked
  std::unordered_map<const clang::FunctionDecl*, Callee> functions_;  // likewise
};

/// The body of `function`, whose definition lies in one file, and its parameters. Spans are offsets into that file and
/// name it `file`.
Body read_body(const clang::FunctionDecl& function, Declarations& declarations, uint32_t file,
               std::vector<Parameter>& parameters);

/// Whether it derives from torch::nn::Module.
bool is_module_class(const clang::CXXRecordDecl& record);

/// How what has that type is bound to what it is given.
Binding to_binding(clang::QualType type);

}  // namespace modgen
