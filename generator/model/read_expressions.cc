// Expressions, and the declarations that Clang resolved their calls to.
#include <clang/AST/DeclTemplate.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Lex/Lexer.h>

#include "generator/model/body_reader.h"
#include "generator/resolve/core_language.h"

namespace modgen {

using llvm::cast;
using llvm::dyn_cast;
using llvm::isa;
using llvm::isa_and_nonnull;

namespace {

bool is_anonymous(const clang::MemberExpr& member) {
  const auto* field = dyn_cast<clang::FieldDecl>(member.getMemberDecl());
  return field && field->isAnonymousStructOrUnion();
}

/// The `forward` that a module holder's call operator calls, found through its decltype return type; null if the return
/// type does not have that form.
const clang::CXXMethodDecl* find_forward(const clang::FunctionDecl& call_operator) {
  const clang::FunctionDecl* at = &call_operator;
  for (int depth = 0; at && depth < 4; ++depth) {
    const auto* type = at->getReturnType()->getAs<clang::DecltypeType>();
    if (!type) return nullptr;
    const clang::Expr* expr = type->getUnderlyingExpr()->IgnoreImplicit();
    if (const auto* method = dyn_cast<clang::CXXMemberCallExpr>(expr)) return method->getMethodDecl();
    const auto* call = dyn_cast<clang::CallExpr>(expr);
    at = call ? call->getDirectCallee() : nullptr;
  }
  return nullptr;
}

/// `call` as a use of operator(), or null.
const clang::CXXOperatorCallExpr* as_call_operator(const clang::CallExpr& call) {
  const auto* operator_call = dyn_cast<clang::CXXOperatorCallExpr>(&call);
  return operator_call && operator_call->getOperator() == clang::OO_Call ? operator_call : nullptr;
}

/// The type of the function that is called through a pointer; null if the callee is not a function or pointer to one.
const clang::FunctionProtoType* called_through_pointer(const clang::CallExpr& call) {
  const clang::QualType type = call.getCallee()->getType();
  return type->isPointerType() ? type->getPointeeType()->getAs<clang::FunctionProtoType>()
                               : type->getAs<clang::FunctionProtoType>();
}

/// Whether a cast removes const.
bool takes_const_away(const clang::ExplicitCastExpr& cast) {
  if (isa<clang::CXXReinterpretCastExpr>(cast)) return true;
  const clang::QualType from = cast.getSubExpr()->IgnoreImplicit()->getType(), to = cast.getType();
  if (from->isPointerType() && to->isPointerType())
    return from->getPointeeType().isConstQualified() && !to->getPointeeType().isConstQualified();
  return cast.isLValue() && from.isConstQualified() && !to.isConstQualified();
}

/// Whether an implicit conversion of an object reads its value, or makes it const.
bool reads(const clang::CastExpr& cast) {
  const clang::QualType type = cast.getType();
  const clang::QualType named = type->isPointerType() ? type->getPointeeType() : type;
  return cast.getCastKind() == clang::CK_LValueToRValue || named.isConstQualified();
}

bool may_be_changed(clang::QualType parameter) {
  if (parameter->isRValueReferenceType()) return false;  // a temporary, or a moved-from value
  const clang::QualType held =
      parameter->isPointerType() ? parameter->getPointeeType() : parameter.getNonReferenceType();
  return (parameter->isPointerType() || parameter->isReferenceType()) && !held.isConstQualified() &&
         !held->isFunctionType();
}

}  // namespace

const clang::Expr& BodyReader::written(const clang::Expr& expr, Conversions* conversions) const {
  const auto is_own = [&](const clang::FunctionDecl* function) {
    return function && declarations_.callee(*function).home == Callee::Home::family;
  };
  const clang::Expr* at = &expr;
  while (true) {
    const clang::Expr* before = at;
    at = at->IgnoreParens();
    if (const auto* cast = dyn_cast<clang::ImplicitCastExpr>(at)) {
      if (conversions) conversions->casts.push_back(cast);
      if (conversions) conversions->read |= reads(*cast);
      at = cast->getSubExpr();
    } else if (const auto* full = dyn_cast<clang::FullExpr>(at)) {
      at = full->getSubExpr();
    } else if (const auto* temporary = dyn_cast<clang::MaterializeTemporaryExpr>(at)) {
      at = temporary->getSubExpr();
    } else if (const auto* temporary = dyn_cast<clang::CXXBindTemporaryExpr>(at)) {
      at = temporary->getSubExpr();
    } else if (const auto* replaced = dyn_cast<clang::SubstNonTypeTemplateParmExpr>(at)) {
      at = replaced->getReplacement();
    } else if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(at); construct && is_conversion(*construct)) {
      if (conversions) conversions->read |= takes_value(*construct, 0);
      at = construct->getArg(0);
    } else if (const auto* list = dyn_cast<clang::CXXStdInitializerListExpr>(at)) {
      at = list->getSubExpr();
    } else if (const auto* conversion = dyn_cast<clang::CXXMemberCallExpr>(at);
               conversion && isa_and_nonnull<clang::CXXConversionDecl>(conversion->getMethodDecl()) &&
               !is_own(conversion->getMethodDecl())) {
      at = conversion->getImplicitObjectArgument();
    } else if (const auto* arrow = dyn_cast<clang::CXXOperatorCallExpr>(at);
               arrow && arrow->getOperator() == clang::OO_Arrow && !is_own(arrow->getDirectCallee())) {
      at = arrow->getArg(0);
    } else if (const auto* member = dyn_cast<clang::MemberExpr>(at); member && is_anonymous(*member)) {
      at = member->getBase();
    }
    if (at == before) return *at;
  }
}

std::string BodyReader::find_unknown(const clang::Expr& expr, const std::vector<const clang::CastExpr*>& casts) const {
  for (const clang::CastExpr* cast : casts)
    if (!is_modelled(*cast, Analysis::interpreter)) return name_construct(*cast);
  if (!is_modelled(expr, Analysis::interpreter)) return name_construct(expr);
  if (const auto* initial = dyn_cast<clang::CXXDefaultInitExpr>(&expr); initial && reads_object(*initial->getExpr()))
    return kReadsOtherMembers;
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&expr);
      reference &&
      (isa<clang::FieldDecl>(reference->getDecl()) || !is_modelled(*reference->getDecl(), Analysis::interpreter)))
    return "a pointer to a member";
  if (const auto* member = dyn_cast<clang::MemberExpr>(&expr))
    if (const auto* field = dyn_cast<clang::FieldDecl>(member->getMemberDecl())) {
      if (field->isBitField()) return "a bit-field";
      if (field->getParent()->isUnion()) return "a member of a union";
    }
  const clang::QualType type = expr.getType();  // null for the arguments of a dependent construction
  if (isa<clang::UnaryOperator>(expr) || type.isNull() || type->isDependentType()) return "";
  return is_modelled(type, Analysis::interpreter) ? "" : name_construct(type);
}

Expr BodyReader::read(const clang::Expr& written_or_not) {
  Conversions conversions;
  const clang::Expr& expr = written(written_or_not, &conversions);
  const std::vector<const clang::CastExpr*>& casts = conversions.casts;
  Expr result;
  result.type = declarations_.type_name(expr.getType());
  result.span = result.outer = find_span(expr.getSourceRange(), &result.in_macro);
  // No call can be inserted into a call that is an entire macro expansion either.
  const clang::SourceLocation begin = expr.getBeginLoc();
  if (isa<clang::CallExpr>(expr) && begin.isMacroID() && !sources_.isMacroArgExpansion(begin)) result.in_macro = true;
  result.is_lvalue = expr.isLValue();
  result.is_unread = is_unread(expr, conversions);
  if (written_or_not.getSourceRange() != expr.getSourceRange())
    result.outer = find_span(written_or_not.getSourceRange());
  for (const clang::CastExpr* cast : casts)
    if (may_change_number(*cast, context_)) result.narrowed_to = declarations_.type_name(cast->getType());
  if (std::string construct = find_unknown(expr, casts); !construct.empty()) {
    result.kind = Expr::Kind::unknown;
    result.name = std::move(construct);
    read_operands(expr, result);
    const auto* named = dyn_cast<clang::DeclRefExpr>(&expr);
    if (const auto* field = named ? dyn_cast<clang::FieldDecl>(named->getDecl()) : nullptr) {
      result.type = declarations_.type_name(context_.getRecordType(field->getParent()));
      result.members = {field->getName().str()};
    }
    return result;
  }
  if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&expr)) {
    read_reference(*reference, result);
  } else if (const auto* member = dyn_cast<clang::MemberExpr>(&expr);
             member && isa<clang::VarDecl>(member->getMemberDecl())) {
    read_global(*cast<clang::VarDecl>(member->getMemberDecl()), result);
  } else if (member) {
    result.kind = Expr::Kind::field;
    result.name = member->getMemberDecl()->getName().str();
    result.is_reference = member->getMemberDecl()->getType()->isReferenceType();
    if (!isa<clang::CXXThisExpr>(written(*member->getBase()))) result.operands.push_back(read(*member->getBase()));
  } else if (isa<clang::CXXThisExpr>(expr)) {
    result.kind = Expr::Kind::self;
  } else if (const auto* call = dyn_cast<clang::CallExpr>(&expr)) {
    read_call(*call, result);
  } else if (const auto* binary = dyn_cast<clang::BinaryOperator>(&expr)) {
    read_operator(binary->getOpcodeStr().str(), {binary->getLHS(), binary->getRHS()}, result);
  } else if (const auto* rewritten = dyn_cast<clang::CXXRewrittenBinaryOperator>(&expr)) {
    const auto form = rewritten->getDecomposedForm();
    const auto* call = dyn_cast<clang::CXXOperatorCallExpr>(form.InnerBinOp->IgnoreImplicit());
    if (call && call->getDirectCallee() &&
        declarations_.callee(*call->getDirectCallee()).home == Callee::Home::family) {
      Expr called = read(*rewritten->getSemanticForm());
      called.span = result.span, called.outer = result.outer;
      return called;
    }
    read_operator(clang::BinaryOperator::getOpcodeStr(form.Opcode).str(), {form.LHS, form.RHS}, result);
  } else if (const auto* unary = dyn_cast<clang::UnaryOperator>(&expr)) {
    read_operator(clang::UnaryOperator::getOpcodeStr(unary->getOpcode()).str(), {unary->getSubExpr()}, result);
  } else if (const auto* subscript = dyn_cast<clang::ArraySubscriptExpr>(&expr)) {
    read_operator("[]", {subscript->getBase(), subscript->getIdx()}, result);
  } else if (const auto* conditional = dyn_cast<clang::ConditionalOperator>(&expr)) {
    read_operator("?:", {conditional->getCond(), conditional->getTrueExpr(), conditional->getFalseExpr()}, result);
  } else if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(&expr)) {
    read_construction(*construct, result);
  } else if (const auto* explicit_cast = dyn_cast<clang::ExplicitCastExpr>(&expr)) {
    read_cast(*explicit_cast, result);
  } else if (const auto* list = dyn_cast<clang::InitListExpr>(&expr)) {
    if (list->getNumInits() == 1 && list->getType()->isScalarType()) return read(*list->getInit(0));
    read_list(*list, result);
  } else if (const auto* lambda = dyn_cast<clang::LambdaExpr>(&expr)) {
    read_lambda(*lambda, result);
  } else if (const auto* thrown = dyn_cast<clang::CXXThrowExpr>(&expr)) {
    result.kind = Expr::Kind::thrown;
    if (thrown->getSubExpr()) result.operands.push_back(read(*thrown->getSubExpr()));
  } else if (isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::StringLiteral, clang::CXXBoolLiteralExpr,
                 clang::CharacterLiteral, clang::CXXNullPtrLiteralExpr>(expr)) {
    result.kind = Expr::Kind::literal;
    result.name = source_text(expr.getSourceRange());
  }
  return result;
}

void BodyReader::read_operands(const clang::Expr& expr, Expr& result) {
  for (const clang::Stmt* child : expr.children())
    if (const auto* operand = llvm::dyn_cast_or_null<clang::Expr>(child)) result.operands.push_back(read(*operand));
}

void BodyReader::read_reference(const clang::DeclRefExpr& reference, Expr& result) {
  const clang::ValueDecl& declaration = *reference.getDecl();
  const auto* variable = dyn_cast<clang::VarDecl>(&declaration);
  const bool local = (variable && (variable->isLocalVarDecl() || isa<clang::ParmVarDecl>(variable))) ||
                     isa<clang::BindingDecl>(declaration);
  result.kind = local ? Expr::Kind::local : Expr::Kind::global;
  result.name = local ? declaration.getName().str() : declaration.getQualifiedNameAsString();
  if (local) result.variable = to_number(declaration);
  if (variable && !local) read_global(*variable, result);
  if (const auto* function = dyn_cast<clang::FunctionDecl>(&declaration))
    result.callee = std::make_shared<Callee>(declarations_.callee(*function));
}

void BodyReader::read_operator(std::string name, std::initializer_list<const clang::Expr*> operands, Expr& result) {
  result.kind = Expr::Kind::op;
  result.name = std::move(name);
  for (const clang::Expr* operand : operands) result.operands.push_back(read(*operand));
}

void BodyReader::read_call(const clang::CallExpr& call, Expr& result) {
  const auto* operator_call = dyn_cast<clang::CXXOperatorCallExpr>(&call);
  if (const auto* member_call = dyn_cast<clang::CXXMemberCallExpr>(&call)) {
    read_method(*member_call, result);
  } else if (as_call_operator(call)) {
    result.kind = Expr::Kind::method;
    result.name = is_holder(operator_call->getArg(0)->getType()) ? "forward" : "operator()";
  } else if (operator_call) {
    result.kind = Expr::Kind::op;
    result.name = operator_call->getOperator() == clang::OO_Subscript
                      ? "[]"
                      : clang::getOperatorSpelling(operator_call->getOperator());
  } else if (const clang::FunctionDecl* function = call.getDirectCallee()) {
    result.kind = Expr::Kind::call;
    result.name = declarations_.callee(*function).name;
  } else {
    result.operands.push_back(read(*call.getCallee()));
  }
  for (unsigned i = 0; i < call.getNumArgs(); ++i) {
    if (isa<clang::CXXDefaultArgExpr>(call.getArg(i))) continue;
    // The second operand of a postfix ++ is a dummy.
    if (operator_call && i == 1 && call.getNumArgs() == 2 &&
        (operator_call->getOperator() == clang::OO_PlusPlus || operator_call->getOperator() == clang::OO_MinusMinus))
      continue;
    result.operands.push_back(read(*call.getArg(i)));
  }
  result.callee = get_callee(call, result);
}

std::shared_ptr<const Callee> BodyReader::get_callee(const clang::CallExpr& call, const Expr& result) const {
  const clang::FunctionDecl* function = call.getDirectCallee();
  const bool is_call_operator = as_call_operator(call) != nullptr;
  if (function && is_call_operator && result.name == "forward")
    if (const clang::CXXMethodDecl* forward = find_forward(*function)) function = forward;
  auto callee = std::make_shared<Callee>(function ? declarations_.callee(*function) : Callee());
  if (function) {
    // Operand 0 of a method, or of an operator that is a method, is the object.
    const bool has_object =
        result.kind == Expr::Kind::method || (result.kind == Expr::Kind::op && isa<clang::CXXMethodDecl>(function));
    for (unsigned i = 0; i < function->getNumParams(); ++i)
      if (const size_t operand = i + (has_object ? 1 : 0);
          operand < result.operands.size() && may_be_changed(function->getParamDecl(i)->getType()))
        callee->changes.push_back(operand);
  } else if (const auto* type = called_through_pointer(call)) {
    for (unsigned i = 0; i < type->getNumParams(); ++i)  // operand 0 is the pointer
      if (i + 1 < result.operands.size() && may_be_changed(type->getParamType(i))) callee->changes.push_back(i + 1);
  }
  if (result.in_macro || (result.kind != Expr::Kind::call && result.kind != Expr::Kind::method)) return callee;
  const clang::Expr& called = is_call_operator ? *call.getArg(0) : *call.getCallee();
  bool in_macro = false;
  callee->written = find_span(called.getSourceRange(), &in_macro);
  if (in_macro) return callee;
  const auto next =
      clang::Lexer::findNextToken(sources_.getFileLoc(called.getEndLoc()), sources_, context_.getLangOpts());
  if (next && next->is(clang::tok::l_paren)) callee->open = sources_.getFileOffset(next->getLocation());
  if (is_call_operator) return callee;
  const clang::Expr* named = called.IgnoreParenImpCasts();
  if (const auto* member = dyn_cast<clang::MemberExpr>(named))
    callee->name_at = find_span(clang::SourceRange(member->getMemberLoc()));
  else if (const auto* reference = dyn_cast<clang::DeclRefExpr>(named))
    callee->name_at = find_span(clang::SourceRange(reference->getLocation()));
  return callee;
}

void BodyReader::read_method(const clang::CXXMemberCallExpr& call, Expr& result) {
  result.kind = Expr::Kind::method;
  const auto* callee = dyn_cast<clang::MemberExpr>(call.getCallee()->IgnoreParens());
  if (!callee) {  // through a pointer to a member
    result.kind = Expr::Kind::other;
    result.operands.push_back(read(*call.getCallee()));
    return;
  }
  result.name = callee->getMemberDecl()->getNameAsString();
  if (callee->hasQualifier())
    if (const auto* owner = dyn_cast<clang::CXXRecordDecl>(callee->getMemberDecl()->getDeclContext()))
      result.name = owner->getName().str() + "::" + result.name;
  result.operands.push_back(read(*callee->getBase()));
}

void BodyReader::read_cast(const clang::ExplicitCastExpr& cast_expr, Expr& result) {
  const clang::Expr* inner = cast_expr.getSubExpr();
  // `Type(a, b)` and `Type(a)` are constructions, although Clang wraps a construction with one argument in a cast.
  const auto* construct = dyn_cast<clang::CXXConstructExpr>(inner->IgnoreImplicit());
  if (construct && !construct->getConstructor()->isCopyOrMoveConstructor())
    return read_construction(*construct, result);
  if (const auto* list = dyn_cast<clang::InitListExpr>(inner->IgnoreImplicit())) return read_list(*list, result);
  result.kind = Expr::Kind::cast;
  result.name = declarations_.type_name(cast_expr.getType());
  if (may_change_number(cast_expr, context_)) result.narrowed_to = result.name;
  result.takes_const_away = takes_const_away(cast_expr);
  result.operands.push_back(read(*inner));
}

void BodyReader::read_lambda(const clang::LambdaExpr& lambda, Expr& result) {
  result.kind = Expr::Kind::lambda;
  result.is_template = lambda.isGenericLambda();
  for (const clang::LambdaCapture& capture : lambda.captures()) {
    Expr operand;
    operand.span = operand.outer = find_span(clang::SourceRange(capture.getLocation()), &operand.in_macro);
    if (capture.capturesThis()) {
      operand.kind = Expr::Kind::self;
    } else if (capture.capturesVariable()) {
      const clang::ValueDecl& captured = *capture.getCapturedVar();
      const auto* variable = dyn_cast<clang::VarDecl>(&captured);
      if (variable && variable->isInitCapture() && variable->getInit()) {
        operand = read(*variable->getInit());
      } else {
        operand.kind = Expr::Kind::local;
        operand.name = captured.getName().str();
        operand.type = declarations_.type_name(captured.getType());
        operand.variable = to_number(captured);
      }
    }
    operand.is_reference = capture.getCaptureKind() == clang::LCK_ByRef;
    result.operands.push_back(std::move(operand));
  }
  Body body;
  body.span = find_span(lambda.getBody()->getSourceRange());
  read_children(*lambda.getCompoundStmtBody(), body.statements);
  result.body = std::make_shared<const Body>(std::move(body));
}

}  // namespace modgen
