// Names of types and functions that Clang resolved, and declarations inside others.
#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <set>

#include "generator/model/read_body.h"
#include "generator/resolve/origins.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// The namespace that encloses flattened text while it is parsed.
constexpr std::string_view kExtra = "flattened::";

std::string without_extra(std::string name) {
  for (size_t at; (at = name.find(kExtra)) != std::string::npos;) name.erase(at, kExtra.size());
  return name;
}

struct InnerFinder : SyntaxVisitor {
  std::vector<clang::CXXRecordDecl*> classes;
  std::vector<const clang::FunctionDecl*> friends;

  bool VisitCXXRecordDecl(clang::CXXRecordDecl* record) override {
    const bool is_inner = record->getDeclContext()->isRecord() || record->getParentFunctionOrMethod();
    if (is_inner && record->isThisDeclarationADefinition() && !record->isLambda() && !record->isDependentContext())
      classes.push_back(record);
    return true;
  }
  bool VisitFriendDecl(clang::FriendDecl* granted) override {
    const clang::NamedDecl* decl = granted->getFriendDecl();
    const auto* function = llvm::dyn_cast_or_null<clang::FunctionDecl>(decl);
    if (function && function->isThisDeclarationADefinition()) friends.push_back(function);
    return true;
  }
};

}  // namespace

Callee::Home get_home(const clang::Decl& declaration) {
  if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&declaration);
      method && method->getParent()->isLambda())
    return Callee::Home::other;
  const clang::NamespaceDecl* outer = nullptr;
  const clang::NamespaceDecl* inner = nullptr;  // directly inside `outer`
  for (const clang::DeclContext* at = declaration.getDeclContext(); at; at = at->getParent())
    if (const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(at)) inner = outer, outer = space;
  if (!outer) return Callee::Home::other;
  const llvm::StringRef name = outer->getName();
  if (name == "modular")
    return inner && inner->getName() == "flattened" ? Callee::Home::family : Callee::Home::contract;
  if (name == "at" || name == "c10" || name == "torch") return Callee::Home::torch;
  return name == "std" ? Callee::Home::standard : Callee::Home::other;
}

bool is_module_class(const clang::CXXRecordDecl& record) { return derives_from(record, "torch::nn::Module"); }

Declarations::Declarations(const clang::ASTContext& context) : policy_(context.getLangOpts()) {
  policy_.adjustForCPlusPlus();
  policy_.SuppressTagKeyword = true;
  policy_.PrintCanonicalTypes = true;
}

const std::string& Declarations::type_name(clang::QualType type) {
  static const std::string none;
  if (type.isNull()) return none;
  const clang::QualType plain = type.getNonReferenceType().getCanonicalType().getUnqualifiedType();
  const auto [found, is_new] = types_.try_emplace(plain.getAsOpaquePtr());
  if (is_new) found->second = without_extra(plain.getAsString(policy_));
  return found->second;
}

const Callee& Declarations::callee(const clang::FunctionDecl& function) {
  const auto [found, is_new] = functions_.try_emplace(function.getCanonicalDecl());
  Callee& callee = found->second;
  if (!is_new) return callee;
  callee.home = get_home(function);
  callee.name = without_extra(function.getQualifiedNameAsString());
  if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function)) {
    callee.changes_object = method->isInstance() && !method->isConst();
    callee.of_module = is_module_class(*method->getParent());
  }
  if (callee.home != Callee::Home::family) return callee;
  std::string arguments;
  if (const auto* made_for = function.getTemplateSpecializationArgs())
    for (const clang::TemplateArgument& argument : made_for->asArray()) {
      llvm::raw_string_ostream out(arguments);
      out << (arguments.empty() ? "<" : ", ");
      argument.print(policy_, out, /*IncludeType=*/true);
    }
  callee.signature = callee.name + (arguments.empty() ? "" : without_extra(arguments) + ">") + "(";
  for (const clang::ParmVarDecl* parameter : function.parameters())
    callee.signature += without_extra(parameter->getType().getCanonicalType().getAsString(policy_)) + ", ";
  callee.signature += ")";
  if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function)) {
    if (method->isConst()) callee.signature += " const";
    if (method->getRefQualifier() != clang::RQ_None)
      callee.signature += method->getRefQualifier() == clang::RQ_LValue ? " &" : " &&";
  }
  return callee;
}

InnerDeclarations::InnerDeclarations(const clang::NamespaceDecl& space) {
  InnerFinder finder;
  finder.visit(&space);
  classes_ = std::move(finder.classes);
  friends_ = std::move(finder.friends);
}

void InnerDeclarations::name_local_classes() {
  std::set<std::string> taken;
  for (clang::CXXRecordDecl* record : classes_) {
    const auto* function = llvm::dyn_cast_or_null<clang::FunctionDecl>(record->getDeclContext());
    if (!function) continue;  // its name begins with that of the class around it
    const std::string own = record->getDeclName() ? record->getNameAsString() : "(unnamed)",
                      name = function->getQualifiedNameAsString() + "::" + own;
    std::string unique = name;
    for (int number = 2; !taken.insert(unique).second; ++number) unique = name + " (" + std::to_string(number) + ")";
    record->setDeclName(&record->getASTContext().Idents.get(unique));
  }
}

Binding to_binding(clang::QualType type) {
  if (!type->isReferenceType()) return Binding::value;
  return type.getNonReferenceType().isConstQualified() ? Binding::constant_reference : Binding::reference;
}

}  // namespace modgen
