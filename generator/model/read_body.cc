#include "generator/model/read_body.h"

#include <clang/Basic/SourceManager.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "generator/flatten/side_effects.h"
#include "generator/model/body_reader.h"
#include "generator/resolve/core_language.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {

using llvm::dyn_cast;
using llvm::isa;

BodyReader::BodyReader(const clang::ASTContext& context, Declarations& declarations, uint32_t file)
    : context_(context), sources_(context.getSourceManager()), declarations_(declarations), file_(file) {}

Body BodyReader::read(const clang::FunctionDecl& function) {
  Body body;
  if (const auto* constructor = dyn_cast<clang::CXXConstructorDecl>(&function)) {
    for (const clang::CXXCtorInitializer* initializer : constructor->inits())
      if (initializer->isWritten() || (initializer->getAnyMember() && !is_module_class(*constructor->getParent())))
        if (Initializer one = read_initializer(*initializer); initializer->isWritten() || !one.arguments.empty())
          body.initializers.push_back(std::move(one));
    // Clang lists them in field order; restore the order in the source.
    std::sort(body.initializers.begin(), body.initializers.end(),
              [](const Initializer& a, const Initializer& b) { return a.span.begin < b.span.begin; });
  }
  if (const auto* compound = llvm::dyn_cast_or_null<clang::CompoundStmt>(function.getBody())) {
    read_children(*compound, body.statements);
    body.span = find_span(compound->getSourceRange());
  }
  return body;
}

uint32_t BodyReader::to_number(const clang::ValueDecl& variable) {
  return numbers_.try_emplace(&variable, static_cast<uint32_t>(numbers_.size() + 1)).first->second;
}

// ---- Source spans ----

SourceSpan BodyReader::find_span(clang::CharSourceRange range, bool* in_macro) const {
  const clang::CharSourceRange in_file = clang::Lexer::makeFileCharRange(range, sources_, context_.getLangOpts());
  clang::SourceLocation begin = in_file.getBegin(), end = in_file.getEnd();
  if (in_file.isInvalid()) {  // part of a macro body: use the span of the macro use
    const clang::CharSourceRange use = sources_.getExpansionRange(range);
    begin = use.getBegin();
    end = use.isTokenRange() ? clang::Lexer::getLocForEndOfToken(use.getEnd(), 0, sources_, context_.getLangOpts())
                             : use.getEnd();
  }
  if (in_macro) *in_macro = in_file.isInvalid();
  return {file_, sources_.getFileOffset(begin), sources_.getFileOffset(end)};
}

SourceSpan BodyReader::find_span(clang::SourceRange range, bool* in_macro) const {
  return find_span(clang::CharSourceRange::getTokenRange(range), in_macro);
}

SourceSpan BodyReader::span_with_semicolon(const clang::Stmt& statement) const {
  SourceSpan span = find_span(statement.getSourceRange());
  const clang::SourceLocation last = sources_.getExpansionRange(statement.getEndLoc()).getEnd();
  const auto next = clang::Lexer::findNextToken(last, sources_, context_.getLangOpts());
  const auto here =
      clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(last, last), sources_, context_.getLangOpts());
  if (here != ";" && next && next->is(clang::tok::semi)) span.end = sources_.getFileOffset(next->getLocation()) + 1;
  return span;
}

std::string BodyReader::source_text(clang::SourceRange range) const {
  return clang::Lexer::getSourceText(sources_.getExpansionRange(range), sources_, context_.getLangOpts()).str();
}

// ---- Statements ----

Initializer BodyReader::read_initializer(const clang::CXXCtorInitializer& initializer) {
  Initializer result;
  if (const clang::FieldDecl* field = initializer.getAnyMember()) {
    result.name = field->getName().str();
  } else {
    result.is_base = true;
    const clang::CXXRecordDecl* base =
        initializer.getBaseClass() ? initializer.getBaseClass()->getAsCXXRecordDecl() : nullptr;
    result.name = base ? base->getName().str() : std::string();
  }
  if (!initializer.isWritten()) {
    const clang::FieldDecl& member = *initializer.getAnyMember();
    const auto* initial = llvm::dyn_cast_or_null<clang::CXXDefaultInitExpr>(initializer.getInit());
    result.span = find_span(member.getSourceRange());
    if (auto value = default_value(member, initial ? initial->getExpr() : nullptr, member.getSourceRange()))
      result.arguments.push_back(std::move(*value));
    return result;
  }
  result.span = find_span(initializer.getSourceRange());
  const auto* base = dyn_cast<clang::CXXConstructExpr>(initializer.getInit()->IgnoreImplicit());
  if (result.is_base && base && declarations_.callee(*base->getConstructor()).home == Callee::Home::family)
    result.arguments.push_back(unknown_at(initializer.getSourceRange(), initializer.isDelegatingInitializer()
                                                                            ? "a delegating constructor"
                                                                            : "a call of a base's constructor"));
  else
    read_arguments(*initializer.getInit(), result.arguments);
  return result;
}

Expr BodyReader::unknown_at(clang::SourceRange range, std::string construct) const {
  Expr result;
  result.kind = Expr::Kind::unknown;
  result.name = std::move(construct);
  result.span = result.outer = find_span(range, &result.in_macro);
  return result;
}

void BodyReader::read_arguments(const clang::Expr& init, std::vector<Expr>& out) {
  const clang::Expr* inner = init.IgnoreImplicit();
  if (const auto* list = dyn_cast<clang::ParenListExpr>(inner)) {
    for (const clang::Expr* argument : const_cast<clang::ParenListExpr*>(list)->exprs()) out.push_back(read(*argument));
    return;
  }
  const auto* construct = dyn_cast<clang::CXXConstructExpr>(inner);
  if (construct && !is_conversion(*construct) && !isa<clang::CXXTemporaryObjectExpr>(construct)) {
    Expr made;
    read_construction(*construct, made);
    std::ranges::move(made.operands, std::back_inserter(out));
    return;
  }
  out.push_back(read(init));
}

void BodyReader::read_children(const clang::CompoundStmt& compound, std::vector<Stmt>& out) {
  for (const clang::Stmt* child : compound.body()) read_stmt(*child, out);
}

std::vector<Stmt> BodyReader::read_branch(const clang::Stmt* statement) {
  std::vector<Stmt> result;
  if (const auto* compound = llvm::dyn_cast_or_null<clang::CompoundStmt>(statement)) {
    read_children(*compound, result);
  } else if (statement) {
    read_stmt(*statement, result);
    for (Stmt& alone : result) alone.has_room = false;
  }
  return result;
}

void BodyReader::read_declarations(const clang::DeclStmt& statement, std::vector<Stmt>& out) {
  for (const clang::Decl* declaration : statement.decls()) {
    const auto* variable = dyn_cast<clang::VarDecl>(declaration);
    Stmt result;
    if (!is_modelled(*declaration, Analysis::interpreter) || isa<clang::FunctionDecl>(declaration)) {
      result.span = span_with_semicolon(statement);
      result.construct = std::string("a local declaration of kind ") + declaration->getDeclKindName();
      out.push_back(std::move(result));
      continue;
    }
    if (!variable) continue;  // a type alias or the like, which has no value
    result.kind = Stmt::Kind::declare;
    result.span = span_with_semicolon(statement);
    add_names(*variable, result);
    result.type = variable->getType().getAsString(clang::PrintingPolicy(context_.getLangOpts()));
    if (const clang::TypeSourceInfo* written = variable->getTypeSourceInfo())
      result.type = source_text(written->getTypeLoc().getSourceRange());
    result.canonical = declarations_.type_name(variable->getType());
    result.is_static = variable->hasGlobalStorage();
    if (variable->getInit() && !is_default_construction(*variable->getInit()))
      result.exprs.push_back(read(*variable->getInit()));
    else if (std::optional<Expr> made = read_default_object(*variable))
      result.exprs.push_back(std::move(*made));
    out.push_back(std::move(result));
  }
}

void BodyReader::add_names(const clang::VarDecl& variable, Stmt& result) {
  result.binding = to_binding(variable.getType());
  const auto add = [&](const clang::ValueDecl& declared) {
    result.names.push_back(declared.getName().str());
    result.variables.push_back(to_number(declared));
  };
  const auto* decomposition = dyn_cast<clang::DecompositionDecl>(&variable);
  if (!decomposition) return add(variable);
  for (const clang::BindingDecl* binding : decomposition->bindings()) {
    add(*binding);
    const auto* member = llvm::dyn_cast_or_null<clang::MemberExpr>(binding->getBinding());
    if (member) result.members.push_back(member->getMemberDecl()->getName().str());
  }
}

/// The macro of which the statement is the expansion, or the beginning of it; empty if there is none.
std::string BodyReader::macro_at(const clang::Stmt& statement) const {
  if (!statement.getBeginLoc().isMacroID()) return "";
  const clang::SourceLocation name = sources_.getExpansionLoc(statement.getBeginLoc());
  return clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(name, name), sources_,
                                     context_.getLangOpts())
      .str();
}

namespace {

/// Whether the message of a warning of libtorch, which `code` gives, is made without side effects.
bool has_pure_message(const clang::Stmt& code) {
  struct Visitor : SyntaxVisitor {
    bool found = false, is_pure = true;
    bool VisitCallExpr(clang::CallExpr* call) override {
      const clang::FunctionDecl* callee = call->getDirectCallee();
      if (!callee || callee->getQualifiedNameAsString() != "c10::str") return true;
      found = true;
      for (const clang::Expr* argument : call->arguments()) is_pure &= find_side_effects(argument, {}).is_pure();
      return true;
    }
  } visitor;
  visitor.visit(&code);
  return visitor.found && visitor.is_pure;
}

}  // namespace

/// Reads checks and warnings of libtorch whose expansion has more than their meaning: a comparison that throws if it is
/// false, and a warning that runs once.
bool BodyReader::read_check(const clang::Stmt& statement, std::vector<Stmt>& out) {
  static const std::set<std::string> kComparisons = {"TORCH_CHECK_EQ", "TORCH_CHECK_NE", "TORCH_CHECK_LE",
                                                     "TORCH_CHECK_LT", "TORCH_CHECK_GE", "TORCH_CHECK_GT"};
  const std::string macro = macro_at(statement);
  const auto* expression = dyn_cast<clang::Expr>(&statement);
  const auto* check = expression ? dyn_cast<clang::ConditionalOperator>(expression->IgnoreParenImpCasts()) : nullptr;
  if (check && kComparisons.contains(macro)) {
    Stmt result;
    result.kind = Stmt::Kind::branch;
    result.span = span_with_semicolon(statement);
    result.exprs.push_back(read(*check->getCond()));
    out.push_back(std::move(result));
    return true;
  }
  const auto* branch = dyn_cast<clang::IfStmt>(&statement);
  if (!branch || macro != "TORCH_WARN_ONCE" || !has_pure_message(*branch->getThen())) return false;
  read_stmt(*branch->getThen(), out);
  return true;
}

void BodyReader::read_stmt(const clang::Stmt& statement, std::vector<Stmt>& out) {
  if (isa<clang::NullStmt>(statement) || read_check(statement, out)) return;
  if (const auto* declarations = dyn_cast<clang::DeclStmt>(&statement)) return read_declarations(*declarations, out);
  if (const auto* attributed = dyn_cast<clang::AttributedStmt>(&statement))
    return read_stmt(*attributed->getSubStmt(), out);

  Stmt result;
  result.span = span_with_semicolon(statement);
  if (const auto* compound = dyn_cast<clang::CompoundStmt>(&statement)) {
    result.kind = Stmt::Kind::block;
    read_children(*compound, result.then_body);
  } else if (const auto* expression = dyn_cast<clang::Expr>(&statement)) {
    result.kind = Stmt::Kind::expression;
    result.exprs.push_back(read(*expression));
  } else if (const auto* ret = dyn_cast<clang::ReturnStmt>(&statement)) {
    result.kind = Stmt::Kind::ret;
    if (ret->getRetValue()) result.exprs.push_back(read(*ret->getRetValue()));
  } else if (isa<clang::BreakStmt>(statement)) {
    result.kind = Stmt::Kind::leave;
  } else if (isa<clang::ContinueStmt>(statement)) {
    result.kind = Stmt::Kind::next;
  } else if (const auto* branch = dyn_cast<clang::IfStmt>(&statement)) {
    return read_if(*branch, result, out);
  } else if (const auto* choice = dyn_cast<clang::SwitchStmt>(&statement)) {
    return read_switch(*choice, result, out);
  } else if (const auto* range_for = dyn_cast<clang::CXXForRangeStmt>(&statement)) {
    return read_range_for(*range_for, result, out);
  } else if (const auto* loop = dyn_cast<clang::ForStmt>(&statement); loop && !loop->getConditionVariable()) {
    return read_for(*loop, result, out);
  } else if (const auto* while_loop = dyn_cast<clang::WhileStmt>(&statement);
             while_loop && !while_loop->getConditionVariable()) {
    result.kind = Stmt::Kind::loop;
    result.exprs.push_back(read(*while_loop->getCond()));
    result.then_body = read_branch(while_loop->getBody());
  } else if (const auto* do_loop = dyn_cast<clang::DoStmt>(&statement)) {
    result.kind = Stmt::Kind::loop;
    result.body_first = true;
    result.exprs.push_back(read(*do_loop->getCond()));
    result.then_body = read_branch(do_loop->getBody());
  } else {
    result.construct = is_modelled(statement, Analysis::interpreter) ? "a variable that a loop's condition declares"
                                                                     : name_construct(statement);
    for (const clang::Stmt* child : statement.children()) {
      if (const auto* expression = llvm::dyn_cast_or_null<clang::Expr>(child))
        result.exprs.push_back(read(*expression));
      else if (child)
        read_stmt(*child, result.then_body);
    }
  }
  out.push_back(std::move(result));
}

namespace {

/// Adds `result` to `out`, inside `scope` if the `if` or loop declares variables in its parentheses.
void put_in_scope(Stmt scope, Stmt result, std::vector<Stmt>& out) {
  if (scope.then_body.empty()) {
    out.push_back(std::move(result));
    return;
  }
  scope.then_body.push_back(std::move(result));
  for (Stmt& inner : scope.then_body) inner.has_room = false;
  out.push_back(std::move(scope));
}

Stmt scope_at(SourceSpan span) {
  Stmt scope;
  scope.kind = Stmt::Kind::block;
  scope.span = span;
  return scope;
}

}  // namespace

void BodyReader::read_if(const clang::IfStmt& branch, Stmt& result, std::vector<Stmt>& out) {
  Stmt scope = scope_at(result.span);
  if (branch.getInit()) read_stmt(*branch.getInit(), scope.then_body);
  if (branch.getConditionVariableDeclStmt()) read_declarations(*branch.getConditionVariableDeclStmt(), scope.then_body);
  if (branch.isConsteval()) {
    result.construct = "if consteval";
    out.push_back(std::move(result));
    return;
  }
  result.kind = Stmt::Kind::branch;
  result.exprs.push_back(read(*branch.getCond()));
  result.then_body = read_branch(branch.getThen());
  result.else_body = read_branch(branch.getElse());
  put_in_scope(std::move(scope), std::move(result), out);
}

void BodyReader::read_switch(const clang::SwitchStmt& choice, Stmt& result, std::vector<Stmt>& out) {
  Stmt scope = scope_at(result.span);
  if (choice.getInit()) read_stmt(*choice.getInit(), scope.then_body);
  if (choice.getConditionVariableDeclStmt())
    read_declarations(*const_cast<clang::SwitchStmt&>(choice).getConditionVariableDeclStmt(), scope.then_body);
  const auto* body = dyn_cast<clang::CompoundStmt>(choice.getBody());
  size_t labels = 0, all_labels = 0;
  for (const clang::SwitchCase* label = choice.getSwitchCaseList(); label; label = label->getNextSwitchCase())
    ++all_labels;
  if (body) {
    result.kind = Stmt::Kind::choice;
    result.exprs.push_back(read(*choice.getCond()));
    for (const clang::Stmt* child : body->body()) {
      bool labelled = false;
      while (const auto* label = dyn_cast<clang::SwitchCase>(child)) {
        labelled = true;
        ++labels;
        result.has_default |= isa<clang::DefaultStmt>(label);
        child = label->getSubStmt();
      }
      const size_t first = result.then_body.size();
      read_stmt(*child, result.then_body);
      if (labelled && result.then_body.size() == first)
        result.then_body.push_back(scope_at(find_span(child->getSourceRange())));
      for (size_t i = first; i < result.then_body.size(); ++i) result.then_body[i].has_room = false;
      if (labelled) result.then_body[first].is_labelled = true;
    }
  }
  if (labels != all_labels) {
    result.kind = Stmt::Kind::other;
    result.construct = "a case label inside another statement";
  } else if (!body) {
    result.construct = "a switch without braces";
  }
  put_in_scope(std::move(scope), std::move(result), out);
}

void BodyReader::read_range_for(const clang::CXXForRangeStmt& loop, Stmt& result, std::vector<Stmt>& out) {
  Stmt scope = scope_at(result.span);
  if (loop.getInit()) read_stmt(*const_cast<clang::CXXForRangeStmt&>(loop).getInit(), scope.then_body);
  result.kind = Stmt::Kind::range_for;
  add_names(*loop.getLoopVariable(), result);
  result.exprs.push_back(read(*loop.getRangeInit()));
  result.then_body = read_branch(loop.getBody());
  put_in_scope(std::move(scope), std::move(result), out);
}

void BodyReader::read_for(const clang::ForStmt& loop, Stmt& result, std::vector<Stmt>& out) {
  Stmt scope = scope_at(result.span);
  if (loop.getInit()) read_stmt(*loop.getInit(), scope.then_body);
  result.kind = Stmt::Kind::loop;
  if (loop.getCond()) result.exprs.push_back(read(*loop.getCond()));
  result.then_body = read_branch(loop.getBody());
  if (loop.getInc()) result.else_body = read_branch(loop.getInc());
  put_in_scope(std::move(scope), std::move(result), out);
}

Body read_body(const clang::FunctionDecl& function, Declarations& declarations, uint32_t file,
               std::vector<Parameter>& parameters) {
  BodyReader reader(function.getASTContext(), declarations, file);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const clang::ParmVarDecl& parameter = *function.getParamDecl(i);
    parameters[i].variable = reader.to_number(parameter);
    parameters[i].canonical = declarations.type_name(parameter.getType());
    parameters[i].binding = to_binding(parameter.getType());
    parameters[i].initial = reader.read_default(parameter);
  }
  return function.doesThisDeclarationHaveABody() ? reader.read(function) : Body();
}

Expr read_value(const clang::Expr& value, const clang::ASTContext& context, Declarations& declarations, uint32_t file) {
  return BodyReader(context, declarations, file).read(value);
}

}  // namespace modgen
