#include "generator/flatten/side_effects.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include <algorithm>

#include "generator/resolve/core_language.h"
#include "generator/resolve/registrations.h"

namespace modgen {
namespace {

bool is_this(const clang::Expr* expr) { return llvm::isa<clang::CXXThisExpr>(expr->IgnoreParenImpCasts()); }

/// Whether a method returns a part of its object and modifies nothing by itself.
bool is_accessor(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {"at",  "back", "begin", "cbegin", "cend", "data",
                                              "end", "find", "front", "get",    "ptr",  "value"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_random(llvm::StringRef name) {
  static constexpr llvm::StringRef words[] = {"rand", "bernoulli", "multinomial", "dropout", "normal", "uniform"};
  return std::any_of(std::begin(words), std::end(words), [&](llvm::StringRef word) { return name.contains(word); });
}

class Reader : public clang::RecursiveASTVisitor<Reader> {
 public:
  explicit Reader(const MethodsMeant& meant) : meant_(meant) {}
  SideEffects found;

  bool VisitMemberExpr(clang::MemberExpr* expr) {
    if (const auto* self = llvm::dyn_cast<clang::CXXThisExpr>(expr->getBase()->IgnoreParenImpCasts()))
      seen_as_object_.insert(self);
    if (targets_.count(expr)) return true;
    if (const std::string field = own_field(expr); !field.empty()) found.reads.insert(field);
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getMemberDecl())) read_global(*variable);
    return true;
  }
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) {
    const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getDecl());
    if (!variable) return true;
    if (is_local(*variable))
      found.read_variables.insert(variable);
    else
      read_global(*variable);
    return true;
  }
  bool VisitVarDecl(clang::VarDecl* variable) {
    if (variable->getDeclName()) found.declared.insert(variable->getNameAsString());
    // The variable may change through this reference.
    const clang::QualType type = variable->getType();
    if (type->isLValueReferenceType() && !type->getPointeeType().isConstQualified() && variable->getInit())
      if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(variable->getInit()->IgnoreParenImpCasts()))
        if (const auto* other = llvm::dyn_cast<clang::VarDecl>(name->getDecl()); other && is_local(*other))
          found.written_variables.insert(other);
    return true;
  }
  bool VisitBindingDecl(clang::BindingDecl* binding) {
    found.declared.insert(binding->getNameAsString());
    return true;
  }
  bool VisitTagDecl(clang::TagDecl* local) {
    if (local->getDeclName()) found.declared.insert(local->getNameAsString());
    return true;
  }
  bool TraverseCXXRecordDecl(clang::CXXRecordDecl* local) {  // its methods return from themselves
    ++lambdas_;
    RecursiveASTVisitor::TraverseCXXRecordDecl(local);
    --lambdas_;
    return true;
  }
  bool VisitCXXThisExpr(clang::CXXThisExpr* expr) {
    // `*this` or `this` as a value: its receiver may read anything.
    if (!expr->isImplicit()) found.reads_everything |= !seen_as_object_.count(expr);
    return true;
  }
  bool VisitReturnStmt(clang::ReturnStmt*) {
    found.returns |= lambdas_ == 0 && !functions_;
    return true;
  }
  bool TraverseLambdaExpr(clang::LambdaExpr* lambda) {
    found.captures |= std::any_of(lambda->explicit_capture_begin(), lambda->explicit_capture_end(),
                                  [](const clang::LambdaCapture& one) { return one.capturesVariable(); });
    for (const clang::Expr* init : lambda->capture_inits())  // the lambda's body shows how it uses the object
      if (const auto* self = llvm::dyn_cast_or_null<clang::CXXThisExpr>(init)) seen_as_object_.insert(self);
    for (const clang::ParmVarDecl* parameter : lambda->getCallOperator()->parameters())
      found.declared.insert(parameter->getNameAsString());
    for (const clang::LambdaCapture& capture : lambda->captures())
      if (capture.capturesVariable() && lambda->isInitCapture(&capture))
        found.declared.insert(capture.getCapturedVar()->getNameAsString());
    ++lambdas_;
    RecursiveASTVisitor::TraverseLambdaExpr(lambda);
    TraverseStmt(lambda->getBody());
    --lambdas_;
    return true;
  }

  bool VisitCXXThrowExpr(clang::CXXThrowExpr*) {
    found.throws = true;
    return true;
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) {
    const clang::BinaryOperatorKind kind = expr->getOpcode();
    const bool divides =
        kind == clang::BO_Div || kind == clang::BO_Rem || kind == clang::BO_DivAssign || kind == clang::BO_RemAssign;
    found.traps |= divides && expr->getRHS()->getType()->isIntegralOrEnumerationType() &&
                   !llvm::isa<clang::IntegerLiteral>(expr->getRHS()->IgnoreParenImpCasts());
    if (!expr->isAssignmentOp()) return true;
    if (expr->getOpcode() == clang::BO_Assign) targets_.insert(expr->getLHS()->IgnoreParens());
    write(expr->getLHS());
    return true;
  }
  bool VisitUnaryOperator(clang::UnaryOperator* expr) {
    if (expr->isIncrementDecrementOp()) write(expr->getSubExpr());
    if (expr->getOpcode() == clang::UO_AddrOf && !expr->getType()->isMemberPointerType() &&
        !expr->getSubExpr()->getType().isConstQualified() && !expr->getSubExpr()->getType()->isFunctionType())
      write(expr->getSubExpr());  // it may change through the pointer
    return true;
  }
  bool VisitCXXConstructExpr(clang::CXXConstructExpr* construct) {
    write_arguments(*construct->getConstructor(), {construct->getArgs(), construct->getNumArgs()});
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) {
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
    if (name != "get" && name != "as_const" && name != "forward")
      write_arguments(*callee, {call->getArgs(), call->getNumArgs()});
    if (is_random(name)) found.writes.insert(kRandom);
    found.throws |= callee->isNoReturn();
    follow(*callee);
    return true;
  }
  /// For a node whose effects are not known.
  bool VisitStmt(clang::Stmt* statement) {
    if (!is_modelled(*statement, Analysis::effects)) writes_anything();
    return true;
  }
  bool VisitCXXDefaultArgExpr(clang::CXXDefaultArgExpr* argument) { return TraverseStmt(argument->getExpr()); }
  bool VisitCXXDefaultInitExpr(clang::CXXDefaultInitExpr* initial) { return TraverseStmt(initial->getExpr()); }
  bool VisitCXXUnresolvedConstructExpr(clang::CXXUnresolvedConstructExpr*) {
    writes_anything();
    return true;
  }
  bool VisitCXXNewExpr(clang::CXXNewExpr*) {
    writes_anything();
    return true;
  }
  bool VisitCXXDeleteExpr(clang::CXXDeleteExpr*) {
    writes_anything();
    return true;
  }

 private:
  static bool is_local(const clang::VarDecl& variable) {
    return variable.isLocalVarDeclOrParm() && !variable.isStaticLocal();
  }
  void writes_anything() { found.reads_everything = found.writes_everything = true; }
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
    if (llvm::isa<clang::CXXConversionDecl>(method) || !method->getDeclName().isIdentifier()) {
      if (!method->isConst() && is_this(object)) writes_anything();
      return;
    }
    const llvm::StringRef name = method->getName();
    if (is_this(object)) {
      if (name.starts_with("register_")) {
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
    found.throws |= method->getParent()->isInStdNamespace() && (name == "at" || name == "value");
    const bool in_place = name.size() > 1 && name.ends_with("_") && !name.ends_with("__");
    if (in_place || (!method->isConst() && !method->isStatic() && !is_accessor(name))) write(object);
    if (is_random(name)) found.writes.insert(kRandom);
  }

  void visit_operator(clang::CXXOperatorCallExpr& call) {
    const clang::FunctionDecl* callee = call.getDirectCallee();
    if (!callee) return writes_anything();
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(callee);
    const clang::OverloadedOperatorKind kind = call.getOperator();
    if (call.isAssignmentOp() || kind == clang::OO_PlusPlus || kind == clang::OO_MinusMinus) {
      if (kind == clang::OO_Equal) targets_.insert(call.getArg(0)->IgnoreParens());
      write(call.getArg(0));
    }
    if (kind == clang::OO_Call && method) {
      if (method->getParent()->isLambda())
        run(*method);
      else if (method->getParent()->isInStdNamespace())
        writes_anything();  // std::function
      else
        found.writes.insert(kRandom);  // a module's forward
    }
    const llvm::ArrayRef<clang::Expr*> all(call.getArgs(), call.getNumArgs());
    write_arguments(*callee, method ? all.drop_front() : all);
    follow(*callee);
  }

  /// Whether the parameter is a forwarding reference that does not modify its argument. std::move and similar functions
  /// do, or let others do so.
  static bool forwards(const clang::FunctionDecl& callee, unsigned index) {
    const clang::FunctionDecl* written = &callee;
    if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&callee))
      while (const auto inherited = constructor->getInheritedConstructor())
        written = constructor = inherited.getConstructor();
    const clang::FunctionDecl* pattern = written->getTemplateInstantiationPattern();
    if (!pattern) return false;
    const llvm::StringRef name = callee.getDeclName().isIdentifier() ? callee.getName() : "";
    if (name == "move" || name == "swap" || name == "exchange") return false;
    const clang::ParmVarDecl* parameter = pattern->getParamDecl(std::min(index, pattern->getNumParams() - 1));
    clang::QualType type = parameter->getType();
    if (const auto* pack = type->getAs<clang::PackExpansionType>()) type = pack->getPattern();
    return type->isRValueReferenceType() && type->getPointeeType()->isTemplateTypeParmType();
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
    inner.TraverseStmt(const_cast<clang::Stmt*>(body));
    SideEffects& inner_effects = inner.found;
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(definition);
    if (!method || !method->getParent()->isLambda()) {  // a lambda's captured variables are the caller's
      inner_effects.read_variables.clear();
      inner_effects.written_variables.clear();
    }
    inner_effects.declared.clear();
    inner_effects.captures = inner_effects.returns = false;
    add(found, inner_effects);
  }

  /// Records that `expr`, or the object that it is part of or refers to, changes.
  void write(const clang::Expr* expr) {
    expr = expr->IgnoreParenImpCasts();
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr)) {
      if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(member->getMemberDecl())) {
        found.writes.insert("::" + variable->getNameAsString());
      } else if (is_this(member->getBase())) {
        found.writes.insert(member->getMemberDecl()->getNameAsString());
      } else {
        write(member->getBase());
      }
    } else if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(expr)) {
      write_variable(*name);
    } else if (const auto* subscript = llvm::dyn_cast<clang::ArraySubscriptExpr>(expr)) {
      write(subscript->getBase());
    } else if (const auto* op = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr)) {
      write(op->getArg(0));
    } else if (const auto* method = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
      if (is_this(method->getImplicitObjectArgument())) return writes_anything();
      write(method->getImplicitObjectArgument());
    } else if (const auto* call = llvm::dyn_cast<clang::CallExpr>(expr)) {
      if (!call->isGLValue()) return;
      for (const clang::Expr* argument : call->arguments()) write(argument);
    } else if (const auto* choice = llvm::dyn_cast<clang::AbstractConditionalOperator>(expr)) {
      write(choice->getTrueExpr());
      write(choice->getFalseExpr());
    } else if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr)) {
      write(cast->getSubExpr());
    } else if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(expr)) {
      if (is_this(unary->getSubExpr())) return writes_anything();
      write(unary->getSubExpr());
    } else if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(expr)) {
      if (binary->isAssignmentOp()) write(binary->getLHS());
    } else if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr)) {
      // A copied handle refers to the same object.
      if (construct->getNumArgs() == 1 && construct->getConstructor()->isCopyOrMoveConstructor())
        write(construct->getArg(0));
    } else if (const auto* temporary = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(expr)) {
      write(temporary->getSubExpr());
    } else if (const auto* temporary = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(expr)) {
      write(temporary->getSubExpr());
    } else if (llvm::isa<clang::CXXThisExpr>(expr)) {
      writes_anything();
    }
  }

  void write_variable(const clang::DeclRefExpr& name) {
    const auto* variable = llvm::dyn_cast<clang::VarDecl>(name.getDecl());
    if (const auto* binding = llvm::dyn_cast<clang::BindingDecl>(name.getDecl())) {
      const auto* decomposed = llvm::dyn_cast<clang::VarDecl>(binding->getDecomposedDecl());
      if (decomposed && decomposed->getInit()) write(decomposed->getInit());
      return;
    }
    if (!variable) return;
    if (!is_local(*variable)) {
      found.writes.insert("::" + variable->getNameAsString());
      return;
    }
    if (!found.written_variables.insert(variable).second) return;
    // A reference or a handle: its source changes, too.
    const bool is_value = variable->getType()->isArithmeticType() || variable->getType()->isEnumeralType();
    if (!is_value && variable->getInit() && !llvm::isa<clang::ParmVarDecl>(variable)) write(variable->getInit());
  }

  const MethodsMeant& meant_;
  std::set<const clang::Expr*> targets_;
  std::set<const clang::CXXThisExpr*> seen_as_object_;
  std::set<const clang::FunctionDecl*> running_;
  int lambdas_ = 0;
  bool functions_ = false;
};

}  // namespace

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant) {
  Reader reader(meant);
  reader.TraverseStmt(const_cast<clang::Stmt*>(code));
  return std::move(reader.found);
}

}  // namespace modgen
