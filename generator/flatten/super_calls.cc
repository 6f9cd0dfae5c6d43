// Calls of a base's method by its qualified name. In the flattened class stands, the first of these that is possible:
//
// - the base's expression, where its body is one `return expression;` and each argument is trivial or used at most
// once;
// - the base's statements, where the call is a statement, or the operand of a return, directly in the method's body,
// its
//   arguments are trivial, names do not clash, and there is no return but where the caller returns;
// - a private method `inherited_<name>` with the base's body.
#include <clang/AST/ExprCXX.h>
#include <clang/AST/ParentMap.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

struct SuperCall {
  const clang::CXXMemberCallExpr* call;
  const clang::CXXMethodDecl* callee;
  size_t level;  // of the callee
};

class Finder : public clang::RecursiveASTVisitor<Finder> {
 public:
  Finder(const Family& family, const Entity& entity) : family_(family), entity_(entity) {}
  std::vector<SuperCall> calls;
  std::vector<const clang::MemberExpr*> fields;  // Base::field
  std::vector<const clang::CallExpr*> owned;     // own<T>(…)

  bool VisitMemberExpr(clang::MemberExpr* member) {
    if (member->hasQualifier() && llvm::isa<clang::FieldDecl>(member->getMemberDecl()) && level_of(*member))
      fields.push_back(member);
    return true;
  }
  bool VisitCXXMemberCallExpr(clang::CXXMemberCallExpr* call) {
    const auto* member = llvm::dyn_cast<clang::MemberExpr>(call->getCallee()->IgnoreParenImpCasts());
    if (!member || !member->hasQualifier()) return true;
    if (const auto level = level_of(*member))
      if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(member->getMemberDecl()))
        calls.push_back({call, method, *level});
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    if (callee && callee->getDeclName().isIdentifier() && callee->getQualifiedNameAsString() == "modular::own" &&
        call->getNumArgs() == 1)
      owned.push_back(call);
    return true;
  }

 private:
  std::optional<size_t> level_of(const clang::MemberExpr& member) const {
    const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(member.getMemberDecl()->getDeclContext());
    const Symbol* symbol = owner ? family_.specs().symbol(owner) : nullptr;
    for (size_t level = 0; symbol && level < entity_.levels.size(); ++level)
      if (entity_.levels[level].symbol == symbol) return level;
    return std::nullopt;
  }

  const Family& family_;
  const Entity& entity_;
};

/// What a body declares, uses and returns.
class Facts : public clang::RecursiveASTVisitor<Facts> {
 public:
  std::map<const clang::NamedDecl*, int> uses;
  std::set<std::string> locals;
  std::set<const clang::NamedDecl*> assigned;
  int returns = 0;
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) {
    ++uses[expr->getDecl()];
    return true;
  }
  bool VisitVarDecl(clang::VarDecl* decl) {
    if (!llvm::isa<clang::ParmVarDecl>(decl)) locals.insert(decl->getNameAsString());
    return true;
  }
  bool VisitBindingDecl(clang::BindingDecl* decl) {
    locals.insert(decl->getNameAsString());
    return true;
  }
  bool VisitReturnStmt(clang::ReturnStmt*) {
    ++returns;
    return true;
  }
  bool TraverseLambdaExpr(clang::LambdaExpr* expr) {  // its returns are its own
    const int before = returns;
    RecursiveASTVisitor::TraverseLambdaExpr(expr);
    returns = before;
    return true;
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) {
    if (expr->isAssignmentOp()) assign(expr->getLHS());
    return true;
  }
  bool VisitUnaryOperator(clang::UnaryOperator* expr) {
    if (expr->isIncrementDecrementOp()) assign(expr->getSubExpr());
    return true;
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* expr) {
    if (expr->isAssignmentOp()) assign(expr->getArg(0));
    return true;
  }

 private:
  void assign(const clang::Expr* target) {
    if (const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(target->IgnoreParenImpCasts()))
      assigned.insert(name->getDecl());
  }
};

const clang::Expr* bare(const clang::Expr* expr) {
  for (const clang::Expr* inner = expr;; expr = inner) {
    inner = expr->IgnoreImplicit()->IgnoreParens();
    if (inner == expr) return expr;
  }
}

/// `expr` binds at least as tightly as a call.
bool is_tight(const clang::Expr& expr) {
  const clang::Expr* inner = expr.IgnoreImplicit();
  if (llvm::isa<clang::BinaryOperator, clang::AbstractConditionalOperator, clang::UnaryOperator, clang::LambdaExpr,
                clang::CStyleCastExpr>(inner))
    return false;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner))
    return call->getOperator() == clang::OO_Call || call->getOperator() == clang::OO_Subscript ||
           call->getOperator() == clang::OO_Arrow;
  return true;
}

/// Where an expression needs no parentheses around it.
bool takes_any_expression(const clang::Stmt* parent, const clang::Expr& child) {
  while (parent && llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                             clang::CXXBindTemporaryExpr>(parent))
    return true;
  if (!parent || llvm::isa<clang::DeclStmt, clang::ReturnStmt, clang::CompoundStmt>(parent)) return true;
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(parent))
    return call->getOperator() == clang::OO_Call && bare(call->getArg(0)) != bare(&child);
  if (const auto* call = llvm::dyn_cast<clang::CallExpr>(parent))
    return std::any_of(call->arg_begin(), call->arg_end(),
                       [&](const clang::Expr* argument) { return bare(argument) == bare(&child); });
  return false;
}

const clang::Stmt* meaningful_parent(const clang::ParentMap& parents, const clang::Stmt* stmt) {
  const clang::Stmt* parent = parents.getParent(stmt);
  while (parent &&
         (llvm::isa<clang::ImplicitCastExpr, clang::ExprWithCleanups, clang::MaterializeTemporaryExpr,
                    clang::CXXBindTemporaryExpr>(parent) ||
          (llvm::isa<clang::CXXConstructExpr>(parent) && llvm::cast<clang::CXXConstructExpr>(parent)->isElidable())))
    parent = parents.getParent(parent);
  // A converting or copying construction that is not written.
  if (const auto* made = llvm::dyn_cast_or_null<clang::CXXConstructExpr>(parent);
      made && !llvm::isa<clang::CXXTemporaryObjectExpr>(made))
    return meaningful_parent(parents, made);
  return parent;
}

class SuperCalls {
 public:
  SuperCalls(Family& family, Entity& entity, Supers& supers)
      : family_(family), entity_(entity), supers_(supers), kept_(supers.kept) {}

  /// The replacements in `body`, code of `level`.
  std::vector<Replacement> in(const clang::Decl& owner, size_t level, const clang::Stmt& body,
                              const Substitution& arguments) {
    std::vector<Replacement> replacements;
    Finder finder(family_, entity_);
    finder.TraverseStmt(const_cast<clang::Stmt*>(&body));
    clang::ParentMap parents(const_cast<clang::Stmt*>(&body));
    Facts facts;
    facts.TraverseStmt(const_cast<clang::Stmt*>(&body));
    std::set<std::string> names = facts.locals;
    if (const auto* function = owner.getAsFunction())
      for (const clang::ParmVarDecl* parameter : function->parameters()) names.insert(parameter->getNameAsString());
    for (const SuperCall& call : finder.calls)
      replacements.push_back(replace(call, level, body, parents, names, arguments));
    for (const clang::MemberExpr* field : finder.fields) {
      const SourceSpan qualifier = span(field->getQualifierLoc().getSourceRange());
      replacements.push_back({qualifier, Fragment()});
    }
    for (const clang::CallExpr* call : finder.owned) {
      std::vector<Replacement> inside = replacements;
      const SourceSpan whole = span(call->getSourceRange()), argument = span(call->getArg(0)->getSourceRange());
      std::erase_if(replacements, [&](const Replacement& one) {
        return whole.begin <= one.where.begin && one.where.end <= whole.end;
      });
      replacements.push_back({whole, family_.render(argument, entity_.levels[level], entity_, arguments, inside)});
    }
    return replacements;
  }

 private:
  SourceSpan span(clang::SourceRange range) const { return family_.parsed().span(family_.specs().manager(), range); }

  Replacement replace(const SuperCall& call, size_t level, const clang::Stmt& body, const clang::ParentMap& parents,
                      const std::set<std::string>& names, const Substitution& outer) {
    const SourceSpan whole = span(call.call->getSourceRange());
    if (!supers_.is_redefined(*call.callee)) {
      const auto* member = llvm::cast<clang::MemberExpr>(call.call->getCallee()->IgnoreParenImpCasts());
      return {span(member->getQualifierLoc().getSourceRange()), Fragment()};
    }
    const clang::FunctionDecl* definition = nullptr;
    const clang::Stmt* base_body = call.callee->getBody(definition);
    Facts facts;
    if (base_body) facts.TraverseStmt(const_cast<clang::Stmt*>(base_body));
    Substitution arguments;
    bool all_trivial = true, can_substitute = base_body != nullptr;
    for (unsigned index = 0; base_body && index < definition->getNumParams(); ++index) {
      const clang::ParmVarDecl* parameter = definition->getParamDecl(index);
      const clang::Expr* argument = index < call.call->getNumArgs() ? call.call->getArg(index) : nullptr;
      const bool is_default = !argument || llvm::isa<clang::CXXDefaultArgExpr>(argument);
      if (is_default) argument = parameter->getDefaultArg();
      const bool trivial = is_trivial_argument(*argument);
      const bool changed = facts.assigned.count(parameter) && !parameter->getType()->isReferenceType();
      all_trivial &= trivial && !changed;
      can_substitute &= (trivial || facts.uses[parameter] <= 1) && !changed;
      const Level& where = entity_.levels[is_default ? call.level : level];
      Fragment text =
          family_.render(span(argument->getSourceRange()), where, entity_, is_default ? Substitution{} : outer);
      if (!is_tight(*argument)) text = parenthesized(text);
      arguments[parameter] = text;
    }

    if (base_body && can_substitute)
      if (const clang::Expr* value = returned(*base_body)) {
        std::vector<Replacement> inside = in(*definition, call.level, *base_body, arguments);
        Fragment text =
            family_.render(span(value->getSourceRange()), entity_.levels[call.level], entity_, arguments, inside);
        const bool parentheses =
            !is_tight(*value) && !takes_any_expression(meaningful_parent(parents, call.call), *call.call);
        return {whole, asked_for(parentheses ? parenthesized(text) : text, whole, level)};
      }

    const clang::Stmt* parent = meaningful_parent(parents, call.call);
    const bool is_statement = parent == &body;
    const bool is_returned = parent && llvm::isa<clang::ReturnStmt>(parent) && parents.getParent(parent) == &body;
    const bool clash = std::any_of(facts.locals.begin(), facts.locals.end(),
                                   [&](const std::string& name) { return names.count(name) != 0; });
    if (base_body && all_trivial && !clash && ((is_statement && facts.returns == 0) || is_returned)) {
      SourceSpan target = whole;
      if (is_returned) target = span(parent->getSourceRange());
      const std::string& text = family_.file_text(target.file);
      const uint32_t semicolon = next_code(text, target.end);
      if (semicolon < text.size() && text[semicolon] == ';') target.end = semicolon + 1;
      std::vector<Replacement> inside = in(*definition, call.level, *base_body, arguments);
      Fragment statements;
      for (const auto& [stmt, slice] : statement_slices(family_, *base_body))
        statements.append(family_.render(slice, entity_.levels[call.level], entity_, arguments, inside));
      return {target, asked_for(on_lines_of_their_own(statements.trimmed(), target), whole, level)};
    }
    return keep(call, level, names);
  }

  /// `text` of a base that the call at `where` asked for.
  Fragment asked_for(Fragment text, SourceSpan where, size_t level) const {
    if (level == 0) text.set_cause(where);
    return text;
  }

  /// The base's method under a name of its own.
  Replacement keep(const SuperCall& call, size_t level, const std::set<std::string>&) {
    const auto* member = llvm::cast<clang::MemberExpr>(call.call->getCallee()->IgnoreParenImpCasts());
    const SourceSpan qualified{span(member->getQualifierLoc().getSourceRange()).file,
                               span(member->getQualifierLoc().getSourceRange()).begin,
                               family_.parsed().token(family_.specs().manager(), member->getMemberLoc()).end};
    std::string name = "inherited_" + call.callee->getNameAsString();
    // Several levels may each keep theirs.
    for (size_t at = level + 1; at < call.level; ++at) name = "inherited_" + name;
    Fragment used;
    used.add(name, qualified);
    if (std::any_of(kept_.begin(), kept_.end(), [&](const KeptMethod& one) { return one.origin == call.callee; }))
      return {qualified, used};
    kept_.push_back({name, call.callee, {}});
    const size_t place = kept_.size() - 1;
    const clang::FunctionDecl* definition = nullptr;
    const clang::Stmt* body = call.callee->getBody(definition);
    if (!body) {
      family_.specs().refuse(qualified, "'" + call.callee->getQualifiedNameAsString() + "' has no body in a spec",
                             "define it in its class");
      return {qualified, used};
    }
    const auto* declared = llvm::cast<clang::FunctionDecl>(call.callee->getCanonicalDecl());
    std::vector<Replacement> inside = in(*definition, call.level, *body, {});
    const SourceSpan own_name = family_.parsed().token(family_.specs().manager(), declared->getLocation());
    Fragment renamed;
    renamed.add(name, own_name);
    inside.push_back({own_name, renamed});
    for (const auto* attribute : declared->attrs())
      if (llvm::isa<clang::OverrideAttr, clang::FinalAttr>(attribute))
        inside.push_back({span(attribute->getRange()), Fragment()});
    const auto render = [&](SourceSpan where) {
      return family_.render(where, entity_.levels[call.level], entity_, {}, inside);
    };
    Fragment text = render(span(declared->getSourceRange()));
    if (declared != definition) {  // behind its class
      text.add(std::string(" "));
      text.append(render(span(body->getSourceRange())));
    }
    kept_[place].text = asked_for(std::move(text), qualified, level);
    return {qualified, used};
  }

  /// Line breaks around `statements` where the code at `target` shares its line with other code.
  Fragment on_lines_of_their_own(const Fragment& statements, SourceSpan target) const {
    const std::string& text = family_.file_text(target.file);
    uint32_t before = target.begin, behind = target.end;
    while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t')) --before;
    while (behind < text.size() && (text[behind] == ' ' || text[behind] == '\t')) ++behind;
    Fragment result;
    if (before > 0 && text[before - 1] != '\n') result.add(std::string("\n"));
    result.append(statements);
    if (behind < text.size() && text[behind] != '\n') result.add(std::string("\n"));
    return result;
  }

  static Fragment parenthesized(const Fragment& text) {
    Fragment result;
    result.add(std::string("("));
    result.append(text);
    result.add(std::string(")"));
    return result;
  }

  static const clang::Expr* returned(const clang::Stmt& body) {
    const auto* compound = llvm::dyn_cast<clang::CompoundStmt>(&body);
    if (!compound || compound->size() != 1) return nullptr;
    const auto* statement = llvm::dyn_cast<clang::ReturnStmt>(compound->body_front());
    return statement ? statement->getRetValue() : nullptr;
  }

  Family& family_;
  Entity& entity_;
  Supers& supers_;
  std::vector<KeptMethod>& kept_;
};

}  // namespace

bool is_repeatable_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (is_trivial_argument(*expr)) return true;
  if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(expr))
    return !binary->isAssignmentOp() && is_repeatable_argument(*binary->getLHS()) &&
           is_repeatable_argument(*binary->getRHS());
  if (const auto* choice = llvm::dyn_cast<clang::ConditionalOperator>(expr))
    return is_repeatable_argument(*choice->getCond()) && is_repeatable_argument(*choice->getTrueExpr()) &&
           is_repeatable_argument(*choice->getFalseExpr());
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr)) {
    const clang::CXXMethodDecl* method = call->getMethodDecl();
    return method && method->isConst() && method->getParent()->isInStdNamespace() &&
           expr->getType()->isArithmeticType() && is_repeatable_argument(*call->getImplicitObjectArgument()) &&
           std::all_of(call->arg_begin(), call->arg_end(),
                       [](const clang::Expr* one) { return is_repeatable_argument(*one); });
  }
  return false;
}

bool is_trivial_argument(const clang::Expr& argument) {
  const clang::Expr* expr = bare(&argument);
  if (llvm::isa<clang::DeclRefExpr, clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr,
                clang::StringLiteral, clang::CXXThisExpr, clang::CXXNullPtrLiteralExpr>(expr))
    return true;
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr)) return is_trivial_argument(*member->getBase());
  if (const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(expr))
    return !unary->isIncrementDecrementOp() && is_trivial_argument(*unary->getSubExpr());
  if (const auto* cast = llvm::dyn_cast<clang::CastExpr>(expr)) return is_trivial_argument(*cast->getSubExpr());
  // A config passed to a base's constructor converts, which no spec's code can see.
  if (const auto* call = llvm::dyn_cast<clang::CXXMemberCallExpr>(expr))
    return llvm::isa_and_nonnull<clang::CXXConversionDecl>(call->getMethodDecl()) &&
           is_trivial_argument(*call->getImplicitObjectArgument());
  if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr))  // *config.head_dim
    return call->getNumArgs() == 1 &&
           (call->getOperator() == clang::OO_Star || call->getOperator() == clang::OO_Arrow) &&
           is_trivial_argument(*call->getArg(0));
  if (const auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(expr))
    return made->getNumArgs() == 1 && is_trivial_argument(*made->getArg(0));
  return false;
}

std::vector<Replacement> super_calls(Family& family, Entity& entity, size_t level, const clang::Decl& method,
                                     const Substitution& arguments, Supers& supers) {
  const clang::FunctionDecl* function = method.getAsFunction();
  if (!function || !function->hasBody()) return {};
  return SuperCalls(family, entity, supers).in(method, level, *function->getBody(), arguments);
}

std::vector<std::pair<const clang::Stmt*, SourceSpan>> statement_slices(const Family& family, const clang::Stmt& body) {
  std::vector<std::pair<const clang::Stmt*, SourceSpan>> result;
  const auto* compound = llvm::dyn_cast<clang::CompoundStmt>(&body);
  if (!compound) return result;
  const auto& manager = family.specs().manager();
  const SourceSpan open = family.parsed().token(manager, compound->getLBracLoc()),
                   close = family.parsed().token(manager, compound->getRBracLoc());
  std::vector<SourceSpan> cores;
  std::vector<const clang::Stmt*> statements;
  for (const clang::Stmt* statement : compound->body()) {
    if (llvm::isa<clang::NullStmt>(statement)) continue;
    cores.push_back(family.parsed().span(manager, statement->getSourceRange()));
    statements.push_back(statement);
  }
  const auto slices = own_gaps(family.file_text(open.file), {open.file, open.end, close.begin}, cores);
  for (size_t index = 0; index < slices.size(); ++index)
    result.push_back({index < statements.size() ? statements[index] : nullptr, slices[index]});
  return result;
}

}  // namespace modgen
