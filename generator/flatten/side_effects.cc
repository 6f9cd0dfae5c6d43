#include "generator/flatten/side_effects.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/library_effects.h"
#include "generator/flatten/writes.h"
#include "generator/resolve/core_language.h"
#include "generator/resolve/object_types.h"
#include "generator/resolve/registrations.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

class Reader : public SyntaxVisitor {
 public:
  explicit Reader(const MethodsMeant& meant) : meant_(meant) {}
  SideEffects found;

  bool VisitMemberExpr(clang::MemberExpr* expr) override {
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
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override {
    const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getDecl());
    if (!variable) return true;
    if (is_local(*variable))
      found.read_variables.insert(variable);
    else
      read_global(*variable);
    return true;
  }
  bool VisitVarDecl(clang::VarDecl* variable) override {
    if (variable->getDeclName()) found.declared.insert(variable->getNameAsString());
    if (!llvm::isa<clang::ParmVarDecl>(variable)) run_destructor(variable->getType());
    // The variable may change through this reference.
    const clang::QualType type = variable->getType();
    if (type->isLValueReferenceType() && !type->getPointeeType().isConstQualified() && variable->getInit())
      if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(variable->getInit()->IgnoreParenImpCasts()))
        if (const auto* other = llvm::dyn_cast<clang::VarDecl>(name->getDecl()); other && is_local(*other))
          found.written_variables.insert(other);
    return true;
  }
  bool VisitBindingDecl(clang::BindingDecl* binding) override {
    found.declared.insert(binding->getNameAsString());
    return true;
  }
  bool VisitTagDecl(clang::TagDecl* local) override {
    if (local->getDeclName()) found.declared.insert(local->getNameAsString());
    if (const auto* values = llvm::dyn_cast<clang::EnumDecl>(local); values && !values->isScoped())
      for (const clang::EnumConstantDecl* value : values->enumerators())
        found.declared.insert(value->getNameAsString());
    return true;
  }
  bool TraverseCXXRecordDecl(clang::CXXRecordDecl* local) override {  // its methods return from themselves
    ++lambdas_;
    SyntaxVisitor::TraverseCXXRecordDecl(local);
    --lambdas_;
    return true;
  }
  bool VisitCXXThisExpr(clang::CXXThisExpr* expr) override {
    // `*this` or `this` as a value: its receiver may read anything.
    if (!expr->isImplicit()) found.reads_everything |= !seen_as_object_.count(expr);
    return true;
  }
  bool VisitReturnStmt(clang::ReturnStmt*) override {
    found.returns |= lambdas_ == 0 && !functions_;
    return true;
  }
  bool TraverseLambdaExpr(clang::LambdaExpr* lambda) override {
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

  bool VisitCXXThrowExpr(clang::CXXThrowExpr*) override {
    found.throws = found.checks = true;
    return true;
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) override {
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
  bool VisitUnaryOperator(clang::UnaryOperator* expr) override {
    if (expr->isIncrementDecrementOp()) write(expr->getSubExpr());
    if (expr->getOpcode() == clang::UO_AddrOf && !expr->getType()->isMemberPointerType() &&
        !expr->getSubExpr()->getType().isConstQualified() && !expr->getSubExpr()->getType()->isFunctionType())
      write(expr->getSubExpr());  // it may change through the pointer
    if (expr->getOpcode() == clang::UO_Deref) look_through(expr->getSubExpr());
    return true;
  }
  bool VisitArraySubscriptExpr(clang::ArraySubscriptExpr* expr) override {
    found.traps |= !llvm::isa<clang::IntegerLiteral>(expr->getIdx()->IgnoreParenImpCasts());
    read_through(expr->getBase());
    return true;
  }
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* construct) override {
    write_arguments(*construct->getConstructor(), {construct->getArgs(), construct->getNumArgs()});
    run_elsewhere(*construct->getConstructor());
    call_library(*construct->getConstructor());
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
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
  bool VisitStmt(clang::Stmt* statement) override {
    if (const auto* temporary = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(statement))
      run_destructor(temporary->getType());
    // The effects of other nodes are not known.
    if (!is_modelled(*statement, Analysis::effects)) writes_anything();
    return true;
  }
  bool VisitCXXDefaultArgExpr(clang::CXXDefaultArgExpr* argument) override { return visit(argument->getExpr()); }
  bool VisitCXXDefaultInitExpr(clang::CXXDefaultInitExpr* initial) override { return visit(initial->getExpr()); }

 private:
  void write(const clang::Expr* expr, bool inside = false) { writes_.add(*expr, inside); }
  void call_library(const clang::FunctionDecl& callee) {
    found.may_throw |= library_may_throw(callee);
    found.calls_libraries |= runs_other_code(callee);
    if (!callee.getDeclName().isIdentifier() || is_of_spec(callee)) return;
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
    if (reads_process(callee.getName())) found.reads.insert(kProcess);
    if ((!method || method->isStatic()) && writes_process(callee.getName())) found.writes.insert(kProcess);
  }
  void writes_anything() { found.set_everything(); }
  void read_global(const clang::VarDecl& variable) {
    if (!variable.getType().isConstQualified() && !variable.isConstexpr())
      found.reads.insert("::" + variable.getNameAsString());
  }

  void visit_method(clang::CXXMemberCallExpr& call) {
    const clang::CXXMethodDecl* method = call.getMethodDecl();
    const clang::Expr* object = call.getImplicitObjectArgument();
    if (!method || !object) return writes_anything();
    if (const auto* self = llvm::dyn_cast<clang::CXXThisExpr>(object->IgnoreParenImpCasts()))
      seen_as_object_.insert(self);
    write_arguments(*method, {call.getArgs(), call.getNumArgs()});
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

  void visit_operator(clang::CXXOperatorCallExpr& call) {
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

  /// Records writes to the arguments that the parameters of `callee` allow it to modify.
  void write_arguments(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments) {
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

  /// Records writes by a function that a function of the standard library is passed, as in std::invoke, to the
  /// variables that it is passed next to it.
  void write_forwarded(const clang::FunctionDecl& callee, llvm::ArrayRef<clang::Expr*> arguments) {
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

  /// Records what a function of a library may do with the iterators, views and functions that it is passed.
  void lend_arguments(llvm::ArrayRef<clang::Expr*> arguments, bool reads, bool of_ranges = false) {
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

  /// Calls an argument that is a function, or an object of a spec with operator().
  void call_argument(const clang::Expr& argument) {
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

  /// Runs a constructor or method of another object of a spec, whose fields are not this object's. Returns whether it
  /// may modify them, as a const method does with mutable ones. Unless the object's class is exact, overriders of the
  /// virtual methods that it calls may do anything.
  bool run_elsewhere(const clang::CXXMethodDecl& method, bool is_exact = true) {
    if (may_be_overridden(method, is_exact)) writes_anything();
    const clang::FunctionDecl* definition = nullptr;
    if (!is_of_spec(*method.getParent()) || !method.getBody(definition)) return false;
    if (method.isDefaulted() && !llvm::isa<clang::CXXConstructorDecl>(method)) return !method.isConst();
    if (!running_.insert(definition).second) return false;
    static const MethodsMeant kAsNamed = [](const clang::CXXMethodDecl& named) {
      return named.hasBody() ? std::vector<const clang::FunctionDecl*>{&named}
                             : std::vector<const clang::FunctionDecl*>();
    };
    static const MethodsMeant kUnlessVirtual = [](const clang::CXXMethodDecl& named) {
      return named.hasBody() && !may_be_overridden(named, false) ? std::vector<const clang::FunctionDecl*>{&named}
                                                                 : std::vector<const clang::FunctionDecl*>();
    };
    Reader inner(is_exact ? kAsNamed : kUnlessVirtual);
    inner.running_ = running_;
    inner.functions_ = true;
    if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(definition))
      for (const clang::CXXCtorInitializer* init : constructor->inits())
        if (init->getInit()) inner.visit(init->getInit());
    inner.visit(definition->getBody());
    const bool modifies =
        inner.found.writes_everything ||
        std::any_of(inner.found.writes.begin(), inner.found.writes.end(),
                    [](const std::string& name) { return !name.starts_with("::") && !name.starts_with("<"); });
    for (auto* fields : {&inner.found.reads, &inner.found.writes})
      std::erase_if(*fields, [](const std::string& name) {
        return name == kRegistry || !(name.starts_with("::") || name.starts_with("<"));
      });
    leave(inner.found);
    add(found, inner.found);
    running_.erase(definition);
    return modifies;
  }

  void run_destructor(clang::QualType type) {
    const auto* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
    const clang::CXXDestructorDecl* destructor = record && record->hasDefinition() ? record->getDestructor() : nullptr;
    if (!destructor) return;
    found.calls_libraries |= runs_other_code(*destructor);
    run_elsewhere(*destructor);
  }

  /// Runs the function's body if it is in a spec or a lambda. Its local variables do not count.
  void follow(const clang::FunctionDecl& callee) {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
    if (method && !method->isStatic()) return;
    if (callee.hasBody()) run(callee);  // bodies from libraries are not followed
  }

  void run(const clang::FunctionDecl& function) {
    const clang::FunctionDecl* definition = nullptr;
    const clang::Stmt* body = function.getBody(definition);
    if (!body) return writes_anything();
    if (!running_.insert(definition).second) return;
    Reader inner(meant_);
    inner.running_ = running_;
    inner.functions_ = true;
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

  /// Records a read of what a pointer points to, which has to be there. The results of operators are theirs to check.
  void look_through(const clang::Expr* pointer) {
    found.traps |= !is_this(pointer) && !llvm::isa<clang::CXXOperatorCallExpr>(pointer->IgnoreParenImpCasts());
    read_through(pointer);
  }

  /// Records a read of what `expr` points to, holds or views.
  void read_through(const clang::Expr* expr) {
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

  void assign(const clang::Expr& target, const clang::Expr& value) {
    write(&target);
    // From here on, a variable may lead to what the value leads to.
    const bool is_name = llvm::isa<clang::DeclRefExpr>(target.IgnoreParenImpCasts());
    if (is_name && &target != &value && get_reach(target.getType()) == Reach::anything) write(&value, true);
  }

  const MethodsMeant& meant_;
  Writes writes_{found};
  std::set<const clang::Expr*> targets_;
  std::set<const clang::CXXThisExpr*> seen_as_object_;
  std::set<const clang::FunctionDecl*> running_;
  int lambdas_ = 0;
  bool functions_ = false;
};

}  // namespace

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant) {
  Reader reader(meant);
  reader.visit(code);
  return std::move(reader.found);
}

}  // namespace modgen
