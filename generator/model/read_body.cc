#include "generator/model/read_body.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>

namespace modgen {
namespace {

using llvm::cast;
using llvm::dyn_cast;
using llvm::isa;

class BodyReader {
 public:
  BodyReader(const clang::ASTContext& context, uint32_t file)
      : context_(context), sources_(context.getSourceManager()), file_(file), policy_(context.getLangOpts()) {
    policy_.adjustForCPlusPlus();
    policy_.SuppressTagKeyword = true;
    policy_.PrintCanonicalTypes = true;
  }

  Body read(const clang::FunctionDecl& function) {
    Body body;
    if (const auto* constructor = dyn_cast<clang::CXXConstructorDecl>(&function)) {
      for (const clang::CXXCtorInitializer* initializer : constructor->inits())
        if (initializer->isWritten()) body.initializers.push_back(read_initializer(*initializer));
      // Clang lists them in the order of the fields; what was written counts for the reader.
      std::sort(body.initializers.begin(), body.initializers.end(),
                [](const Initializer& a, const Initializer& b) { return a.span.begin < b.span.begin; });
    }
    if (const auto* compound = llvm::dyn_cast_or_null<clang::CompoundStmt>(function.getBody())) {
      read_children(*compound, body.statements);
      body.span = span_of(compound->getSourceRange());
    }
    return body;
  }

 private:
  // ---- Places ----

  SourceSpan span_of(clang::CharSourceRange range) const {
    const clang::CharSourceRange in_file = clang::Lexer::makeFileCharRange(range, sources_, context_.getLangOpts());
    clang::SourceLocation begin = in_file.getBegin(), end = in_file.getEnd();
    if (in_file.isInvalid()) {  // a part of a macro's body: the whole use stands for it
      const clang::CharSourceRange use = sources_.getExpansionRange(range);
      begin = use.getBegin();
      end = use.isTokenRange() ? clang::Lexer::getLocForEndOfToken(use.getEnd(), 0, sources_, context_.getLangOpts())
                               : use.getEnd();
    }
    return {file_, sources_.getFileOffset(begin), sources_.getFileOffset(end)};
  }

  SourceSpan span_of(clang::SourceRange range) const { return span_of(clang::CharSourceRange::getTokenRange(range)); }

  /// A statement's range up to the semicolon behind it, if one is there.
  SourceSpan span_with_semicolon(const clang::Stmt& statement) const {
    SourceSpan span = span_of(statement.getSourceRange());
    const clang::SourceLocation last = sources_.getExpansionRange(statement.getEndLoc()).getEnd();
    const auto next = clang::Lexer::findNextToken(last, sources_, context_.getLangOpts());
    const auto here = clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(last, last), sources_,
                                                  context_.getLangOpts());
    if (here != ";" && next && next->is(clang::tok::semi)) span.end = sources_.getFileOffset(next->getLocation()) + 1;
    return span;
  }

  std::string source_text(clang::SourceRange range) const {
    return clang::Lexer::getSourceText(sources_.getExpansionRange(range), sources_, context_.getLangOpts()).str();
  }

  std::string type_name(clang::QualType type) const {
    if (type.isNull()) return "";
    return type.getNonReferenceType().getCanonicalType().getUnqualifiedType().getAsString(policy_);
  }

  // ---- Statements ----

  Initializer read_initializer(const clang::CXXCtorInitializer& initializer) {
    Initializer result;
    if (const clang::FieldDecl* field = initializer.getAnyMember()) {
      result.name = field->getName().str();
    } else {
      result.is_base = true;
      const clang::CXXRecordDecl* base =
          initializer.getBaseClass() ? initializer.getBaseClass()->getAsCXXRecordDecl() : nullptr;
      result.name = base ? base->getName().str() : std::string();
    }
    result.span = span_of(initializer.getSourceRange());
    read_arguments(*initializer.getInit(), result.arguments);
    return result;
  }

  /// The arguments of an initializer: those of the constructor that it names, or the one value.
  void read_arguments(const clang::Expr& init, std::vector<Expr>& out) {
    const clang::Expr* inner = init.IgnoreImplicit();
    if (const auto* list = dyn_cast<clang::ParenListExpr>(inner)) {
      for (const clang::Expr* argument : const_cast<clang::ParenListExpr*>(list)->exprs())
        out.push_back(read(*argument));
      return;
    }
    const auto* construct = dyn_cast<clang::CXXConstructExpr>(inner);
    if (construct && !is_conversion(*construct) && !isa<clang::CXXTemporaryObjectExpr>(construct)) {
      for (const clang::Expr* argument : construct->arguments())
        if (!isa<clang::CXXDefaultArgExpr>(argument)) out.push_back(read(*argument));
      return;
    }
    out.push_back(read(*inner));
  }

  void read_children(const clang::CompoundStmt& compound, std::vector<Stmt>& out) {
    for (const clang::Stmt* child : compound.body()) read_stmt(*child, out);
  }

  std::vector<Stmt> read_branch(const clang::Stmt* statement) {
    std::vector<Stmt> result;
    if (const auto* compound = llvm::dyn_cast_or_null<clang::CompoundStmt>(statement))
      read_children(*compound, result);
    else if (statement)
      read_stmt(*statement, result);
    return result;
  }

  void read_declarations(const clang::DeclStmt& statement, std::vector<Stmt>& out) {
    for (const clang::Decl* declaration : statement.decls()) {
      const auto* variable = dyn_cast<clang::VarDecl>(declaration);
      if (!variable) continue;  // a type alias or the like: nothing flows through it
      Stmt result;
      result.kind = Stmt::Kind::declare;
      result.span = span_with_semicolon(statement);
      add_names(*variable, result.names);
      result.type = variable->getType().getAsString(clang::PrintingPolicy(context_.getLangOpts()));
      if (const clang::TypeSourceInfo* written = variable->getTypeSourceInfo())
        result.type = source_text(written->getTypeLoc().getSourceRange());
      if (variable->getInit() && !is_default_construction(*variable->getInit()))
        result.exprs.push_back(read(*variable->getInit()));
      out.push_back(std::move(result));
    }
  }

  static void add_names(const clang::VarDecl& variable, std::vector<std::string>& names) {
    if (const auto* decomposition = dyn_cast<clang::DecompositionDecl>(&variable)) {
      for (const clang::BindingDecl* binding : decomposition->bindings()) names.push_back(binding->getName().str());
    } else {
      names.push_back(variable.getName().str());
    }
  }

  void read_stmt(const clang::Stmt& statement, std::vector<Stmt>& out) {
    if (isa<clang::NullStmt>(statement)) return;
    if (const auto* declarations = dyn_cast<clang::DeclStmt>(&statement)) return read_declarations(*declarations, out);

    Stmt result;
    result.span = span_with_semicolon(statement);
    if (const auto* compound = dyn_cast<clang::CompoundStmt>(&statement)) {
      result.kind = Stmt::Kind::block;
      read_children(*compound, result.then_body);
    } else if (const auto* attributed = dyn_cast<clang::AttributedStmt>(&statement)) {
      return read_stmt(*attributed->getSubStmt(), out);
    } else if (const auto* expression = dyn_cast<clang::Expr>(&statement)) {
      result.kind = Stmt::Kind::expression;
      result.exprs.push_back(read(*expression));
    } else if (const auto* ret = dyn_cast<clang::ReturnStmt>(&statement)) {
      result.kind = Stmt::Kind::ret;
      if (ret->getRetValue()) result.exprs.push_back(read(*ret->getRetValue()));
    } else if (const auto* branch = dyn_cast<clang::IfStmt>(&statement)) {
      return read_if(*branch, result, out);
    } else if (const auto* range_for = dyn_cast<clang::CXXForRangeStmt>(&statement)) {
      result.kind = Stmt::Kind::range_for;
      add_names(*range_for->getLoopVariable(), result.names);
      result.exprs.push_back(read(*range_for->getRangeInit()));
      result.then_body = read_branch(range_for->getBody());
    } else if (const auto* loop = dyn_cast<clang::ForStmt>(&statement)) {
      return read_for(*loop, result, out);
    } else if (isa<clang::WhileStmt, clang::DoStmt>(statement)) {
      result.kind = Stmt::Kind::loop;
      const auto* while_loop = dyn_cast<clang::WhileStmt>(&statement);
      const auto* do_loop = dyn_cast<clang::DoStmt>(&statement);
      result.exprs.push_back(read(while_loop ? *while_loop->getCond() : *do_loop->getCond()));
      result.then_body = read_branch(while_loop ? while_loop->getBody() : do_loop->getBody());
    } else {
      for (const clang::Stmt* child : statement.children()) {
        if (const auto* expression = llvm::dyn_cast_or_null<clang::Expr>(child))
          result.exprs.push_back(read(*expression));
        else if (child)
          read_stmt(*child, result.then_body);
      }
    }
    out.push_back(std::move(result));
  }

  void read_if(const clang::IfStmt& branch, Stmt& result, std::vector<Stmt>& out) {
    Stmt scope;
    scope.kind = Stmt::Kind::block;
    scope.span = result.span;
    if (branch.getInit()) read_stmt(*branch.getInit(), scope.then_body);
    if (branch.getConditionVariableDeclStmt())
      read_declarations(*branch.getConditionVariableDeclStmt(), scope.then_body);
    result.kind = Stmt::Kind::branch;
    result.exprs.push_back(read(*branch.getCond()));
    result.then_body = read_branch(branch.getThen());
    result.else_body = read_branch(branch.getElse());
    in_scope(std::move(scope), std::move(result), out);
  }

  void read_for(const clang::ForStmt& loop, Stmt& result, std::vector<Stmt>& out) {
    Stmt scope;
    scope.kind = Stmt::Kind::block;
    scope.span = result.span;
    if (loop.getInit()) read_stmt(*loop.getInit(), scope.then_body);
    result.kind = Stmt::Kind::loop;
    if (loop.getCond()) result.exprs.push_back(read(*loop.getCond()));
    if (loop.getInc()) result.exprs.push_back(read(*loop.getInc()));
    result.then_body = read_branch(loop.getBody());
    in_scope(std::move(scope), std::move(result), out);
  }

  static void in_scope(Stmt scope, Stmt result, std::vector<Stmt>& out) {
    if (scope.then_body.empty()) {
      out.push_back(std::move(result));
    } else {
      scope.then_body.push_back(std::move(result));
      out.push_back(std::move(scope));
    }
  }

  // ---- Expressions ----

  /// A construction that only converts or copies its one argument, which stands for it.
  static bool is_conversion(const clang::CXXConstructExpr& construct) {
    if (isa<clang::CXXTemporaryObjectExpr>(construct) || construct.getNumArgs() == 0) return false;
    for (unsigned i = 1; i < construct.getNumArgs(); ++i)
      if (!isa<clang::CXXDefaultArgExpr>(construct.getArg(i))) return false;
    return !isa<clang::CXXDefaultArgExpr>(construct.getArg(0));
  }

  static bool is_default_construction(const clang::Expr& init) {
    const auto* construct = dyn_cast<clang::CXXConstructExpr>(init.IgnoreImplicit());
    return construct && !isa<clang::CXXTemporaryObjectExpr>(construct) && construct->getNumArgs() == 0 &&
           !construct->isListInitialization();
  }

  /// What stands for `expr` once everything that was not written is taken away.
  const clang::Expr& written(const clang::Expr& expr) const {
    const clang::Expr* at = &expr;
    while (true) {
      const clang::Expr* before = at;
      at = at->IgnoreParens()->IgnoreImplicit();
      if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(at); construct && is_conversion(*construct)) {
        at = construct->getArg(0);
      } else if (const auto* list = dyn_cast<clang::CXXStdInitializerListExpr>(at)) {
        at = list->getSubExpr();
      } else if (const auto* conversion = dyn_cast<clang::CXXMemberCallExpr>(at);
                 conversion && isa_and_nonnull<clang::CXXConversionDecl>(conversion->getMethodDecl())) {
        at = conversion->getImplicitObjectArgument();
      } else if (const auto* arrow = dyn_cast<clang::CXXOperatorCallExpr>(at);
                 arrow && arrow->getOperator() == clang::OO_Arrow) {
        at = arrow->getArg(0);
      } else if (const auto* member = dyn_cast<clang::MemberExpr>(at); member && is_anonymous(*member)) {
        at = member->getBase();
      }
      if (at == before) return *at;
    }
  }

  static bool is_anonymous(const clang::MemberExpr& member) {
    const auto* field = dyn_cast<clang::FieldDecl>(member.getMemberDecl());
    return field && field->isAnonymousStructOrUnion();
  }

  Expr read(const clang::Expr& written_or_not) {
    const clang::Expr& expr = written(written_or_not);
    Expr result;
    result.type = type_name(expr.getType());
    result.span = span_of(expr.getSourceRange());
    if (const auto* reference = dyn_cast<clang::DeclRefExpr>(&expr)) {
      read_reference(*reference, result);
    } else if (const auto* member = dyn_cast<clang::MemberExpr>(&expr)) {
      result.kind = Expr::Kind::field;
      result.name = member->getMemberDecl()->getName().str();
      if (!isa<clang::CXXThisExpr>(written(*member->getBase()))) result.operands.push_back(read(*member->getBase()));
    } else if (isa<clang::CXXThisExpr>(expr)) {
      result.kind = Expr::Kind::self;
    } else if (const auto* call = dyn_cast<clang::CallExpr>(&expr)) {
      read_call(*call, result);
    } else if (const auto* binary = dyn_cast<clang::BinaryOperator>(&expr)) {
      read_operator(binary->getOpcodeStr().str(), {binary->getLHS(), binary->getRHS()}, result);
    } else if (const auto* rewritten = dyn_cast<clang::CXXRewrittenBinaryOperator>(&expr)) {
      const auto form = rewritten->getDecomposedForm();
      read_operator(clang::BinaryOperator::getOpcodeStr(form.Opcode).str(), {form.LHS, form.RHS}, result);
    } else if (const auto* unary = dyn_cast<clang::UnaryOperator>(&expr)) {
      read_operator(clang::UnaryOperator::getOpcodeStr(unary->getOpcode()).str(), {unary->getSubExpr()}, result);
    } else if (const auto* subscript = dyn_cast<clang::ArraySubscriptExpr>(&expr)) {
      read_operator("[]", {subscript->getBase(), subscript->getIdx()}, result);
    } else if (const auto* conditional = dyn_cast<clang::ConditionalOperator>(&expr)) {
      read_operator("?:", {conditional->getCond(), conditional->getTrueExpr(), conditional->getFalseExpr()}, result);
    } else if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(&expr)) {
      result.kind = Expr::Kind::construct;
      result.name = type_name(construct->getType());
      for (const clang::Expr* argument : construct->arguments())
        if (!isa<clang::CXXDefaultArgExpr>(argument)) result.operands.push_back(read(*argument));
    } else if (const auto* explicit_cast = dyn_cast<clang::ExplicitCastExpr>(&expr)) {
      read_cast(*explicit_cast, result);
    } else if (const auto* list = dyn_cast<clang::InitListExpr>(&expr)) {
      result.kind = Expr::Kind::list;
      const clang::InitListExpr* syntactic =
          list->isSemanticForm() && list->getSyntacticForm() ? list->getSyntacticForm() : list;
      for (const clang::Expr* element : syntactic->inits()) result.operands.push_back(read(*element));
    } else if (const auto* lambda = dyn_cast<clang::LambdaExpr>(&expr)) {
      read_lambda(*lambda, result);
    } else if (isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::StringLiteral, clang::CXXBoolLiteralExpr,
                   clang::CharacterLiteral, clang::CXXNullPtrLiteralExpr>(expr)) {
      result.kind = Expr::Kind::literal;
      result.name = source_text(expr.getSourceRange());
    } else {
      for (const clang::Stmt* child : expr.children())
        if (const auto* operand = llvm::dyn_cast_or_null<clang::Expr>(child)) result.operands.push_back(read(*operand));
    }
    return result;
  }

  void read_reference(const clang::DeclRefExpr& reference, Expr& result) {
    const clang::ValueDecl& declaration = *reference.getDecl();
    const auto* variable = dyn_cast<clang::VarDecl>(&declaration);
    const bool local = (variable && variable->isLocalVarDeclOrParm()) || isa<clang::BindingDecl>(declaration);
    result.kind = local ? Expr::Kind::local : Expr::Kind::global;
    result.name = local ? declaration.getName().str() : declaration.getQualifiedNameAsString();
  }

  void read_operator(std::string name, std::initializer_list<const clang::Expr*> operands, Expr& result) {
    result.kind = Expr::Kind::op;
    result.name = std::move(name);
    for (const clang::Expr* operand : operands) result.operands.push_back(read(*operand));
  }

  void read_call(const clang::CallExpr& call, Expr& result) {
    unsigned first = 0;
    if (const auto* member_call = dyn_cast<clang::CXXMemberCallExpr>(&call)) {
      read_method(*member_call, result);
    } else if (const auto* operator_call = dyn_cast<clang::CXXOperatorCallExpr>(&call)) {
      const bool is_call = operator_call->getOperator() == clang::OO_Call;
      result.kind = is_call ? Expr::Kind::method : Expr::Kind::op;
      result.name = is_call ? (is_holder(operator_call->getArg(0)->getType()) ? "forward" : "operator()")
                            : (operator_call->getOperator() == clang::OO_Subscript
                                   ? "[]"
                                   : clang::getOperatorSpelling(operator_call->getOperator()));
    } else if (const clang::FunctionDecl* function = call.getDirectCallee()) {
      result.kind = Expr::Kind::call;
      result.name = function->getQualifiedNameAsString();
    } else {
      result.operands.push_back(read(*call.getCallee()));
    }
    const auto* operator_call = dyn_cast<clang::CXXOperatorCallExpr>(&call);
    for (unsigned i = first; i < call.getNumArgs(); ++i) {
      if (isa<clang::CXXDefaultArgExpr>(call.getArg(i))) continue;
      // The second operand of a postfix ++ is a dummy.
      if (operator_call && i == 1 && operator_call->getOperator() == clang::OO_PlusPlus) continue;
      result.operands.push_back(read(*call.getArg(i)));
    }
  }

  void read_method(const clang::CXXMemberCallExpr& call, Expr& result) {
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

  void read_cast(const clang::ExplicitCastExpr& cast_expr, Expr& result) {
    const clang::Expr* inner = cast_expr.getSubExpr();
    // `Type(a, b)` and `Type(a)` are constructions also where Clang wraps the one of a single argument into a cast.
    const auto* construct = dyn_cast<clang::CXXConstructExpr>(inner->IgnoreImplicit());
    if (construct && !construct->getConstructor()->isCopyOrMoveConstructor()) {
      result.kind = Expr::Kind::construct;
      result.name = type_name(construct->getType());
      for (const clang::Expr* argument : construct->arguments())
        if (!isa<clang::CXXDefaultArgExpr>(argument)) result.operands.push_back(read(*argument));
      return;
    }
    result.kind = Expr::Kind::cast;
    result.name = type_name(cast_expr.getType());
    result.operands.push_back(read(*inner));
  }

  void read_lambda(const clang::LambdaExpr& lambda, Expr& result) {
    result.kind = Expr::Kind::lambda;
    for (const clang::LambdaCapture& capture : lambda.captures()) {
      Expr operand;
      operand.span = span_of(clang::SourceRange(capture.getLocation()));
      if (capture.capturesThis()) {
        operand.kind = Expr::Kind::self;
      } else if (capture.capturesVariable()) {
        operand.kind = Expr::Kind::local;
        operand.name = capture.getCapturedVar()->getName().str();
        operand.type = type_name(capture.getCapturedVar()->getType());
      }
      result.operands.push_back(std::move(operand));
    }
  }

  static bool is_holder(clang::QualType type) {
    const clang::CXXRecordDecl* record = type.getNonReferenceType()->getAsCXXRecordDecl();
    if (!record || !record->hasDefinition()) return false;
    bool found = record->getName() == "ModuleHolder" || record->getName() == "OneOf";
    record->forallBases([&](const clang::CXXRecordDecl* base) {
      found |= base->getName() == "ModuleHolder";
      return true;
    });
    return found;
  }

  const clang::ASTContext& context_;
  const clang::SourceManager& sources_;
  uint32_t file_;
  clang::PrintingPolicy policy_;
};

}  // namespace

Body read_body(const clang::FunctionDecl& function, uint32_t file) {
  return BodyReader(function.getASTContext(), file).read(function);
}

}  // namespace modgen
