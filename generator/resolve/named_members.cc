#include "generator/resolve/named_members.h"

#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>

#include "generator/resolve/object_types.h"

namespace modgen {
namespace {

/// All names in one function's code, with their places.
class NamesInCode : public NamedMembers {
 public:
  struct Member {
    NamedMember named;
    clang::SourceLocation where;
  };
  struct Function {
    const clang::FunctionDecl* function;
    clang::SourceLocation where;
  };
  std::vector<Member> members;
  std::vector<Function> functions;

 private:
  void add_member(const clang::Expr& object, const clang::ValueDecl& member, clang::SourceLocation where) override {
    members.push_back({{object.getType(), &member}, where});
  }
  void add_function(const clang::FunctionDecl& function, clang::SourceLocation where) override {
    functions.push_back({&function, where});
  }
};

}  // namespace

bool NamedMembers::VisitStmt(clang::Stmt* statement) {
  // Code that C++ adds: the conversions of a list's elements, the calls of begin and end, and the operator that stands
  // for another one.
  if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(statement))
    if (const clang::InitListExpr* converted = list->getSemanticForm(); converted && lists_.insert(converted).second)
      return std::all_of(converted->begin(), converted->end(), [&](const clang::Stmt* one) { return visit(one); });
  if (const auto* loop = llvm::dyn_cast<clang::CXXForRangeStmt>(statement))
    for (const clang::DeclStmt* bound : {loop->getBeginStmt(), loop->getEndStmt()})
      if (bound) visit(llvm::cast<clang::VarDecl>(bound->getSingleDecl())->getInit());
  if (const auto* rewritten = llvm::dyn_cast<clang::CXXRewrittenBinaryOperator>(statement))
    return visit(rewritten->getSemanticForm());
  return true;
}

bool NamedMembers::VisitBindingDecl(clang::BindingDecl* binding) { return visit(binding->getBinding()); }

bool NamedMembers::VisitCXXConstructExpr(clang::CXXConstructExpr* construct) {
  add_function(*construct->getConstructor(), construct->getLocation());
  return true;
}

bool NamedMembers::VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) {
  const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(call->getDirectCallee());
  if (method) add_member(*call->getArg(0)->IgnoreParenImpCasts(), *method, call->getOperatorLoc());
  return true;
}

bool NamedMembers::VisitDeclRefExpr(clang::DeclRefExpr* expr) {
  if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(expr->getDecl()))
    add_function(*function, expr->getLocation());
  return true;
}

bool NamedMembers::VisitMemberExpr(clang::MemberExpr* expr) {
  const clang::ValueDecl& member = *expr->getMemberDecl();
  const clang::Expr* object = expr->getBase()->IgnoreParenImpCasts();
  if (!expr->hasQualifier() && !llvm::isa<clang::CXXThisExpr>(object))
    add_member(*object, member, expr->getMemberLoc());
  if (const auto* method = llvm::dyn_cast<clang::FunctionDecl>(&member)) add_function(*method, expr->getMemberLoc());
  return true;
}

void NamedMembers::visit_code(const clang::FunctionDecl& definition) {
  if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&definition))
    for (const clang::CXXCtorInitializer* init : constructor->inits()) visit(init->getInit());
  visit(definition.getBody());
}

std::vector<NamedMember> InstanceMembers::of(const clang::FunctionDecl& instance) {
  std::vector<NamedMember> found;
  std::vector<const clang::FunctionDecl*> left = {&instance};
  std::set<const clang::FunctionDecl*> visited;
  while (!left.empty()) {
    const clang::FunctionDecl& next = *left.back()->getCanonicalDecl();
    left.pop_back();
    if (!visited.insert(&next).second) continue;
    const Names& here = names(next);
    found.insert(found.end(), here.members.begin(), here.members.end());
    left.insert(left.end(), here.functions.begin(), here.functions.end());
  }
  return found;
}

const InstanceMembers::Names& InstanceMembers::names(const clang::FunctionDecl& instance) {
  const auto [known, is_new] = known_.try_emplace(&instance);
  Names& found = known->second;
  if (!is_new) return found;
  const clang::FunctionDecl *pattern = instance.getTemplateInstantiationPattern(), *definition = nullptr;
  if (!pattern || !is_declared_by_specs(*pattern) || own_.Encloses(pattern->getDeclContext())) return found;
  if (!instance.getBody(definition) || !pattern->getBody(pattern)) return found;
  NamesInCode here, there;
  here.visit_code(*definition);
  there.visit_code(*pattern);
  // Names in the template itself do not depend on its arguments.
  std::set<clang::SourceLocation> known_places;
  for (const auto& one : there.members) known_places.insert(one.where);
  for (const auto& one : there.functions) known_places.insert(one.where);
  for (const auto& one : here.members)
    if (!known_places.count(one.where)) found.members.push_back(one.named);
  for (const auto& one : here.functions)
    if (!known_places.count(one.where)) found.functions.push_back(one.function);
  return found;
}

}  // namespace modgen
