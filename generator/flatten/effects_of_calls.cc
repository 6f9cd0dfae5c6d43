// Side effects of calls: what callees do, and what they may do with what they are passed.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/effects_reader.h"
#include "generator/flatten/library_effects.h"
#include "generator/resolve/object_types.h"

namespace modgen {

void EffectsReader::call_library(const clang::FunctionDecl& callee) {
  found.may_throw |= library_may_throw(callee);
  add_classes_run_by(callee, found.held);
  if (!callee.getDeclName().isIdentifier() || is_of_spec(callee)) return;
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
  if (reads_process(callee.getName())) found.reads.insert(kProcess);
  if ((!method || method->isStatic()) && writes_process(callee.getName())) found.writes.insert(kProcess);
}

void EffectsReader::visit_method(clang::CXXMemberCallExpr& call) {
  const clang::CXXMethodDecl* method = call.getMethodDecl();
  const clang::Expr* object = call.getImplicitObjectArgument();
  if (!method || !object) return writes_anything();
  if (const auto* self = llvm::dyn_cast<clang::CXXThisExpr>(object->IgnoreParenImpCasts()))
    seen_as_object_.insert(self);
  write_arguments(*method, {call.getArgs(), call.getNumArgs()});
  found.counts_elements |= counts_elements(*method, {call.getArgs(), call.getNumArgs()});
  llvm::StringRef name;  // empty for conversions and operators
  if (method->getDeclName().isIdentifier()) name = method->getName();
  if (is_this(object)) {
    if (name.empty()) return method->isConst() ? run(*method) : writes_anything();
    if (name.starts_with("register_") && !is_of_spec(*method)) {
      found.writes.insert(kRegistry);
      return;
    }
    const auto* callee = llvm::dyn_cast<clang::MemberExpr>(call.getCallee()->IgnoreParens());
    if (callee && callee->hasQualifier()) return run(*method);  // not virtual: overriders do not run
    const std::vector<const clang::FunctionDecl*> bodies = meant_ ? meant_(*method) : decltype(bodies){};
    if (bodies.empty()) return writes_anything();
    for (const clang::FunctionDecl* body : bodies) run(*body);
    return;
  }
  found.throws |= method->getParent()->isInStdNamespace() && throws_by_name(name);
  found.traps |= method->getParent()->isInStdNamespace() && needs_element(name);
  const bool in_place = name.size() > 1 && name.ends_with("_") && !name.ends_with("__");
  const bool is_arrow = object->getType()->isPointerType();
  const bool reads =
      method->isConst() || method->isStatic() || (is_accessor(name) && !is_of_spec(*method->getParent()));
  const auto* named = llvm::dyn_cast<clang::MemberExpr>(call.getCallee()->IgnoreParens());
  const bool is_exact = (named && named->hasQualifier()) || has_exact_class(*object);
  if (run_elsewhere(*method, is_exact) || in_place || !reads) write(object, is_arrow);
  if (is_arrow) look_through(object);
  if (is_random(name)) found.writes.insert(kRandom);
}

void EffectsReader::visit_operator(clang::CXXOperatorCallExpr& call) {
  const clang::FunctionDecl* callee = call.getDirectCallee();
  if (!callee) return writes_anything();
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(callee);
  const clang::OverloadedOperatorKind kind = call.getOperator();
  if (call.isAssignmentOp() || kind == clang::OO_PlusPlus || kind == clang::OO_MinusMinus) {
    if (kind == clang::OO_Equal) targets_.insert(call.getArg(0)->IgnoreParens());
    assign(*call.getArg(0), *call.getArg(call.getNumArgs() - 1));
  }
  if (kind == clang::OO_Call && method) {
    if (method->getParent()->isLambda())
      run(*method);
    else if (const auto name = range_algorithm(call))
      lend_arguments({call.getArgs() + 1, call.getNumArgs() - 1}, is_reading_algorithm(*name), true);
    else if (method->getParent()->isInStdNamespace())
      writes_anything();  // std::function
    else
      found.writes.insert(kRandom);  // a module's forward
  }
  const bool is_own = method && !method->isStatic() && is_of_spec(*method->getParent());
  const bool is_exact = is_own && has_exact_class(*call.getArg(0));
  if (is_own && (run_elsewhere(*method, is_exact) || !method->isConst())) write(call.getArg(0));
  if (kind == clang::OO_Subscript && method && inserts_missing(*method)) write(call.getArg(0));
  const bool looks_inside =
      kind == clang::OO_Arrow || kind == clang::OO_Subscript || (kind == clang::OO_Star && call.getNumArgs() == 1);
  if (looks_inside) read_through(call.getArg(0));
  found.traps |= looks_inside && method && method->getParent()->isInStdNamespace() && !inserts_missing(*method);
  const llvm::ArrayRef<clang::Expr*> all(call.getArgs(), call.getNumArgs());
  write_arguments(*callee, method ? all.drop_front() : all);
  follow(*callee);
}

void EffectsReader::write_arguments(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments) {
  for (unsigned index = 0; index < arguments.size() && index < callee.getNumParams(); ++index) {
    const clang::QualType type = callee.getParamDecl(index)->getType();
    const clang::QualType pointee = type->getPointeeType();
    if (pointee.isNull() || pointee.isConstQualified() || pointee->isFunctionType()) continue;
    if (type->isReferenceType() && !forwards(callee, index))
      write(arguments[index]);
    else if (type->isPointerType() && !llvm::isa<clang::UnaryOperator>(arguments[index]->IgnoreParenImpCasts()) &&
             !arguments[index]->isNullPointerConstant(callee.getASTContext(), clang::Expr::NPC_ValueDependentIsNull))
      writes_anything();
  }
}

void EffectsReader::write_forwarded(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments) {
  const auto is_callable = [](const clang::Expr* argument) {
    const clang::QualType type = argument->getType();
    const auto* record = type->getAsCXXRecordDecl();
    return type->isFunctionType() || type->isFunctionPointerType() || type->isMemberPointerType() ||
           (record && (record->isLambda() || record->getName() == "function"));
  };
  if (std::none_of(arguments.begin(), arguments.end(), is_callable)) return;
  for (unsigned index = 0; index < arguments.size(); ++index)
    if (arguments[index]->isLValue() && !arguments[index]->getType().isConstQualified() &&
        !is_callable(arguments[index]) && forwards(callee, index))
      write(arguments[index]);
}

void EffectsReader::lend_arguments(llvm::ArrayRef<clang::Expr*> arguments, bool reads, bool of_ranges) {
  for (const clang::Expr* argument : arguments) {
    const clang::QualType type = argument->getType();
    const auto* record = type->getAsCXXRecordDecl();
    if (record && record->isLambda()) {
      run(*record->getLambdaCallOperator());
      continue;
    }
    call_argument(*argument);
    const bool is_range = of_ranges && argument->isLValue();
    if ((!record && !is_range) || reads || only_reads(type) || type.isConstQualified()) continue;
    if (of_ranges || get_reach(type) == Reach::anything) write(argument, true);
  }
}

void EffectsReader::call_argument(const clang::Expr& argument) {
  const clang::Expr* named = argument.IgnoreParenImpCasts();
  if (const auto* address = llvm::dyn_cast<clang::UnaryOperator>(named);
      address && address->getOpcode() == clang::UO_AddrOf)
    named = address->getSubExpr()->IgnoreParenImpCasts();
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(named);
  const auto* function = name ? llvm::dyn_cast<clang::FunctionDecl>(name->getDecl()) : nullptr;
  if (function && !llvm::isa<clang::CXXMethodDecl>(function)) return run(*function);
  if (function || argument.getType()->isFunctionPointerType()) return writes_anything();
  const auto* record = argument.getType()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition() || !is_of_spec(*record)) return;
  const auto call = record->getASTContext().DeclarationNames.getCXXOperatorName(clang::OO_Call);
  for (const clang::NamedDecl* one : record->lookup(call)) {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(one);
    if (method && method->isVirtual())
      writes_anything();
    else if (!method || run_elsewhere(*method) || !method->isConst())
      write(&argument);
  }
}

const MethodsMeant& EffectsReader::as_named() {
  static const MethodsMeant kAsNamed = [](const clang::CXXMethodDecl& named) {
    return named.hasBody() ? std::vector<const clang::FunctionDecl*>{&named}
                           : std::vector<const clang::FunctionDecl*>();
  };
  return kAsNamed;
}

bool EffectsReader::run_elsewhere(const clang::CXXMethodDecl& method, bool is_exact) {
  if (may_be_overridden(method, is_exact)) writes_anything();
  if (!is_of_spec(*method.getParent())) return false;
  const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&method);
  const clang::FunctionDecl* definition = nullptr;
  const bool has_body = method.getBody(definition);
  const bool is_assignment = method.isCopyAssignmentOperator() || method.isMoveAssignmentOperator();
  if (!running_.insert(has_body ? definition : &method).second) return false;
  if (!method.isUserProvided() && (!has_body || is_assignment)) {
    run_memberwise(method);
    running_.erase(has_body ? definition : &method);
    return is_assignment;
  }
  static const MethodsMeant kUnlessVirtual = [](const clang::CXXMethodDecl& named) {
    return named.hasBody() && !may_be_overridden(named, false) ? std::vector<const clang::FunctionDecl*>{&named}
                                                               : std::vector<const clang::FunctionDecl*>();
  };
  bool modifies = false;
  if (has_body) {
    EffectsReader inner(is_exact ? as_named() : kUnlessVirtual, *this);
    if (constructor)
      for (const clang::CXXCtorInitializer* init : llvm::cast<clang::CXXConstructorDecl>(definition)->inits())
        if (init->getInit()) inner.visit(init->getInit());
    inner.visit(definition->getBody());
    modifies = add_elsewhere(inner);
  }
  running_.erase(has_body ? definition : &method);
  return modifies;
}

bool EffectsReader::add_elsewhere(EffectsReader& inner) {
  const auto is_field = [](const std::string& name) { return !name.starts_with("::") && !name.starts_with("<"); };
  const bool modifies =
      inner.found.writes_everything || std::any_of(inner.found.writes.begin(), inner.found.writes.end(), is_field);
  for (auto* fields : {&inner.found.reads, &inner.found.writes})
    std::erase_if(*fields, [&](const std::string& name) { return name == kRegistry || is_field(name); });
  leave(inner.found);
  add(found, inner.found);
  return modifies;
}

void EffectsReader::follow(const clang::FunctionDecl& callee) {
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
  if (method && !method->isStatic()) return;
  if (callee.hasBody()) run(callee);  // bodies from libraries are not followed
}

void EffectsReader::run(const clang::FunctionDecl& function) {
  const clang::FunctionDecl* definition = nullptr;
  const clang::Stmt* body = function.getBody(definition);
  if (!body) return writes_anything();
  if (!running_.insert(definition).second) return;
  EffectsReader inner(meant_, *this);
  inner.visit(body);
  SideEffects& inner_effects = inner.found;
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(definition);
  if (method && method->getParent()->isLambda()) {  // its captured variables are the caller's
    found.read_variables.insert(inner_effects.read_variables.begin(), inner_effects.read_variables.end());
    found.written_variables.insert(inner_effects.written_variables.begin(), inner_effects.written_variables.end());
  }
  leave(inner_effects);
  add(found, inner_effects);
}

}  // namespace modgen
