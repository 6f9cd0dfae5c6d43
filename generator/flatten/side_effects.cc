#include "generator/flatten/side_effects.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/effects_reader.h"
#include "generator/flatten/library_effects.h"
#include "generator/resolve/core_language.h"
#include "generator/resolve/registrations.h"

namespace modgen {

bool EffectsReader::VisitMemberExpr(clang::MemberExpr* expr) {
  if (const auto* self = llvm::dyn_cast<clang::CXXThisExpr>(expr->getBase()->IgnoreParenImpCasts()))
    seen_as_object_.insert(self);
  if (targets_.count(expr)) return true;
  if (!expr->getMemberDecl()->getDeclName()) found.reads.insert(kUnnamed);
  if (const std::string field = own_field(expr); !field.empty()) {
    found.reads.insert(field);
    const auto* member = llvm::dyn_cast<clang::FieldDecl>(expr->getMemberDecl());
    found.reads_everything |= member && get_reach(member->getType()) == Reach::anything;
  } else if (expr->isArrow()) {
    look_through(expr->getBase());
  }
  if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getMemberDecl())) read_global(*variable);
  return true;
}

bool EffectsReader::VisitDeclRefExpr(clang::DeclRefExpr* expr) {
  const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getDecl());
  if (!variable) return true;
  if (is_local(*variable))
    found.read_variables.insert(variable);
  else
    read_global(*variable);
  return true;
}

bool EffectsReader::VisitVarDecl(clang::VarDecl* variable) {
  if (variable->getDeclName()) found.declared.insert(variable->getNameAsString());
  if (!llvm::isa<clang::ParmVarDecl>(variable)) destroy(variable->getType());
  // The variable may change through this reference.
  const clang::QualType type = variable->getType();
  if (type->isLValueReferenceType() && !type->getPointeeType().isConstQualified() && variable->getInit())
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(variable->getInit()->IgnoreParenImpCasts()))
      if (const auto* other = llvm::dyn_cast<clang::VarDecl>(name->getDecl()); other && is_local(*other))
        found.written_variables.insert(other);
  return true;
}

bool EffectsReader::VisitBindingDecl(clang::BindingDecl* binding) {
  found.declared.insert(binding->getNameAsString());
  return true;
}

bool EffectsReader::VisitTagDecl(clang::TagDecl* local) {
  if (local->getDeclName()) found.declared.insert(local->getNameAsString());
  if (const auto* values = llvm::dyn_cast<clang::EnumDecl>(local); values && !values->isScoped())
    for (const clang::EnumConstantDecl* value : values->enumerators()) found.declared.insert(value->getNameAsString());
  return true;
}

bool EffectsReader::TraverseCXXRecordDecl(clang::CXXRecordDecl* local) {  // its methods return from themselves
  ++lambdas_;
  SyntaxVisitor::TraverseCXXRecordDecl(local);
  --lambdas_;
  return true;
}

bool EffectsReader::VisitCXXThisExpr(clang::CXXThisExpr* expr) {
  // `*this` or `this` as a value: its receiver may read anything.
  if (!expr->isImplicit()) found.reads_everything |= !seen_as_object_.count(expr);
  return true;
}

bool EffectsReader::VisitReturnStmt(clang::ReturnStmt*) {
  found.returns |= lambdas_ == 0 && !functions_;
  return true;
}

bool EffectsReader::TraverseLambdaExpr(clang::LambdaExpr* lambda) {
  found.captures |= lambda->getCaptureDefault() == clang::LCD_ByCopy ||
                    std::any_of(lambda->explicit_capture_begin(), lambda->explicit_capture_end(),
                                [](const clang::LambdaCapture& one) { return one.capturesVariable(); });
  for (const clang::Expr* init : lambda->capture_inits())  // the lambda's body shows how it uses the object
    if (const auto* self = llvm::dyn_cast_or_null<clang::CXXThisExpr>(init)) seen_as_object_.insert(self);
  for (const clang::ParmVarDecl* parameter : lambda->getCallOperator()->parameters())
    found.declared.insert(parameter->getNameAsString());
  for (const clang::LambdaCapture& capture : lambda->captures())
    if (capture.capturesVariable() && lambda->isInitCapture(&capture))
      found.declared.insert(capture.getCapturedVar()->getNameAsString());
  ++lambdas_;
  SyntaxVisitor::TraverseLambdaExpr(lambda);
  visit(lambda->getBody());
  --lambdas_;
  return true;
}

bool EffectsReader::VisitCXXThrowExpr(clang::CXXThrowExpr*) {
  found.throws = found.checks = true;
  return true;
}

bool EffectsReader::VisitBinaryOperator(clang::BinaryOperator* expr) {
  const clang::BinaryOperatorKind kind = expr->getOpcode();
  const bool divides =
      kind == clang::BO_Div || kind == clang::BO_Rem || kind == clang::BO_DivAssign || kind == clang::BO_RemAssign;
  found.traps |= divides && expr->getRHS()->getType()->isIntegralOrEnumerationType() &&
                 !llvm::isa<clang::IntegerLiteral>(expr->getRHS()->IgnoreParenImpCasts());
  if (!expr->isAssignmentOp()) return true;
  if (expr->getOpcode() == clang::BO_Assign) targets_.insert(expr->getLHS()->IgnoreParens());
  assign(*expr->getLHS(), *expr->getRHS());
  return true;
}

bool EffectsReader::VisitUnaryOperator(clang::UnaryOperator* expr) {
  if (expr->isIncrementDecrementOp()) write(expr->getSubExpr());
  if (expr->getOpcode() == clang::UO_AddrOf && !expr->getType()->isMemberPointerType() &&
      !expr->getSubExpr()->getType().isConstQualified() && !expr->getSubExpr()->getType()->isFunctionType())
    write(expr->getSubExpr());  // it may change through the pointer
  if (expr->getOpcode() == clang::UO_Deref) look_through(expr->getSubExpr());
  return true;
}

bool EffectsReader::VisitArraySubscriptExpr(clang::ArraySubscriptExpr* expr) {
  found.traps |= !llvm::isa<clang::IntegerLiteral>(expr->getIdx()->IgnoreParenImpCasts());
  read_through(expr->getBase());
  return true;
}

bool EffectsReader::VisitCXXConstructExpr(clang::CXXConstructExpr* construct) {
  write_arguments(*construct->getConstructor(), {construct->getArgs(), construct->getNumArgs()});
  found.counts_elements |=
      counts_elements(*construct->getConstructor(), {construct->getArgs(), construct->getNumArgs()});
  run_elsewhere(*construct->getConstructor());
  call_library(*construct->getConstructor());
  return true;
}

bool EffectsReader::VisitCallExpr(clang::CallExpr* call) {
  if (const clang::FunctionDecl* callee = call->getDirectCallee()) call_library(*callee);
  if (auto* member = llvm::dyn_cast<clang::CXXMemberCallExpr>(call)) {
    visit_method(*member);
    return true;
  }
  if (auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(call)) {
    visit_operator(*op);
    return true;
  }
  if (const clang::MemberExpr* member = replaced_member(*call)) {  // remake(member, value) reads only the value
    targets_.insert(member);
    found.writes.insert(kRegistry);
    return true;
  }
  const clang::FunctionDecl* callee = call->getDirectCallee();
  if (!callee) {
    if (!call->isTypeDependent()) writes_anything();
    return true;
  }
  llvm::StringRef name;
  if (callee->getDeclName().isIdentifier()) name = callee->getName();
  const bool passes_on = callee->isInStdNamespace() && (name == "get" || name == "as_const" || name == "forward");
  if (!passes_on) write_arguments(*callee, {call->getArgs(), call->getNumArgs()});
  if (callee->isInStdNamespace()) write_forwarded(*callee, {call->getArgs(), call->getNumArgs()});
  if (is_random(name)) found.writes.insert(kRandom);
  found.checks |= callee->isNoReturn();
  found.throws |= callee->isNoReturn() || (callee->isInStdNamespace() && throws_by_name(name));
  follow(*callee);
  const bool moves = name == "move" && call->getNumArgs() == 1;
  const bool reads = callee->isInStdNamespace() && (moves || is_reading_algorithm(name));
  if (!callee->hasBody() || callee->isInStdNamespace()) lend_arguments({call->getArgs(), call->getNumArgs()}, reads);
  return true;
}

bool EffectsReader::VisitStmt(clang::Stmt* statement) {
  if (const auto* temporary = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(statement)) destroy(temporary->getType());
  if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(statement)) construct_omitted(*list);
  if (const auto* loop = llvm::dyn_cast<clang::CXXForRangeStmt>(statement)) run_range(*loop);
  if (const auto* inherited = llvm::dyn_cast<clang::CXXInheritedCtorInitExpr>(statement))
    run_elsewhere(*inherited->getConstructor());
  if (const auto* rewritten = llvm::dyn_cast<clang::CXXRewrittenBinaryOperator>(statement))
    run_callees(*rewritten->getSemanticForm(), false);
  // The effects of other nodes are not known.
  if (!is_modelled(*statement, Analysis::effects)) writes_anything();
  return true;
}

bool EffectsReader::VisitCXXDefaultArgExpr(clang::CXXDefaultArgExpr* argument) { return visit(argument->getExpr()); }

bool EffectsReader::VisitCXXDefaultInitExpr(clang::CXXDefaultInitExpr* initial) { return visit(initial->getExpr()); }

void EffectsReader::read_global(const clang::VarDecl& variable) {
  if (!variable.getType().isConstQualified() && !variable.isConstexpr())
    found.reads.insert("::" + variable.getNameAsString());
}

void EffectsReader::look_through(const clang::Expr* pointer) {
  found.traps |= !is_this(pointer) && !llvm::isa<clang::CXXOperatorCallExpr>(pointer->IgnoreParenImpCasts());
  read_through(pointer);
}

void EffectsReader::read_through(const clang::Expr* expr) {
  expr = expr->IgnoreUnlessSpelledInSource()->IgnoreParens();
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(expr);
  const auto* variable = name ? llvm::dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
  // The initializer of a local variable has read the variable's target.
  if (is_this(expr) || (variable && is_local(*variable) && !llvm::isa<clang::ParmVarDecl>(variable))) return;
  const auto* call = llvm::dyn_cast<clang::CallExpr>(expr);
  const auto* method = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr);
  if (method && !is_this(method->getImplicitObjectArgument())) read_through(method->getImplicitObjectArgument());
  for (unsigned index = 0; call && index < call->getNumArgs(); ++index) read_through(call->getArg(index));
  if (call && (method || call->getNumArgs() > 0)) return;
  const Reach reach = get_reach(expr->getType());
  found.reads_everything |= reach == Reach::anything;
  if (reach == Reach::shared) found.reads.insert(kShared);
}

void EffectsReader::assign(const clang::Expr& target, const clang::Expr& value) {
  write(&target);
  // From here on, a variable may lead to what the value leads to.
  const bool is_name = llvm::isa<clang::DeclRefExpr>(target.IgnoreParenImpCasts());
  if (is_name && &target != &value && get_reach(target.getType()) == Reach::anything) write(&value, true);
}

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant) {
  EffectsReader reader(meant);
  reader.visit(code);
  return std::move(reader.found);
}

SideEffects find_default_effects(clang::QualType type) {
  static const MethodsMeant kNone;
  EffectsReader reader(kNone);
  reader.construct(type);
  return std::move(reader.found);
}

SideEffects find_field_effects(const clang::FieldDecl& field, const MethodsMeant& meant) {
  EffectsReader reader(meant);
  if (field.hasInClassInitializer())
    reader.visit(field.getInClassInitializer());
  else
    reader.construct(field.getType());
  reader.found.acts_at_its_end = acts_at_its_end(field.getType());
  return std::move(reader.found);
}

}  // namespace modgen
