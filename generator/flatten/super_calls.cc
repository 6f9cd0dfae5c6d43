// Calls of a base's method by its qualified name. A private method `inherited_<name>` with the base's body is
// always correct: C++ itself converts, copies and looks up names. If the result is provably the same, the base's text
// replaces the call instead:
//
// - its expression, where its body is one `return expression;`;
// - its statements, where the call is a statement, or the operand of a return, directly in the method's body.
#include <clang/AST/ExprCXX.h>
#include <clang/AST/ParentMap.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/named_by_base.h"
#include "generator/flatten/operands.h"
#include "generator/flatten/outside.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// The function's name; a word for an operator.
std::string name_for_identifier(const clang::FunctionDecl& function) {
  switch (function.getOverloadedOperator()) {
#define OVERLOADED_OPERATOR(Name, Spelling, Token, Unary, Binary, MemberOnly) \
  case clang::OO_##Name:                                                      \
    return llvm::StringRef(#Name).lower();
#include <clang/Basic/OperatorKinds.def>
    default:
      return function.getNameAsString();
  }
}

/// Whether the expression changes a variable by a built-in operator: in one expression with others that use the
/// variable their order is left open, unlike that of a call.
bool changes_by_operator(const clang::Stmt& expression) {
  if (llvm::isa<clang::LambdaExpr>(expression)) return false;
  const auto* unary = llvm::dyn_cast<clang::UnaryOperator>(&expression);
  const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(&expression);
  if ((unary && unary->isIncrementDecrementOp()) || (binary && binary->isAssignmentOp())) return true;
  return std::any_of(expression.child_begin(), expression.child_end(),
                     [&](const clang::Stmt* child) { return child && changes_by_operator(*child); });
}

class SuperCalls {
 public:
  SuperCalls(Family& family, Entity& entity, Supers& supers)
      : family_(family), entity_(entity), supers_(supers), kept_(supers.kept), meant_(methods_meant(entity)) {}

  /// The replacements in `code` of `function`, which `level` declares: `code` is its body or one of its initializers.
  std::vector<Replacement> in(const clang::FunctionDecl& function, size_t level, const clang::Stmt& code,
                              const Substitution& arguments) {
    std::set<std::string> inlined;
    return in(function, level, code, arguments, inlined);
  }

 private:
  std::vector<Replacement> in(const clang::FunctionDecl& function, size_t level, const clang::Stmt& code,
                              const Substitution& arguments, std::set<std::string>& inlined) {
    std::vector<Replacement> replacements;
    const NamedByBase named = find_named_by_base(family_, entity_, code);
    clang::ParentMap parents(const_cast<clang::Stmt*>(&code));
    const CallSite site{function, level, code, parents, arguments, names_declared(Specs::defined(function)), inlined};
    for (const SuperCall& call : named.calls) replacements.push_back(replace(call, site));
    for (const clang::MemberExpr* field : named.fields) {
      const SourceSpan qualifier = span(field->getQualifierLoc().getSourceRange());
      const auto& owner = *llvm::cast<clang::CXXRecordDecl>(field->getMemberDecl()->getDeclContext());
      const std::string name = family_.member_name(field->getMemberDecl()->getNameAsString(),
                                                   *family_.specs().symbol(&owner), entity_.levels[level], entity_);
      const bool is_hidden = site.names.count(name) || arguments.hidden.count(name);
      replacements.push_back({qualifier, field->isImplicitAccess() && is_hidden ? Fragment("this->") : Fragment()});
    }
    for (const auto& [qualifier, owner] : named.of_libraries)
      replacements.push_back({qualifier, library_qualifier(*owner, qualifier)});
    for (const clang::CallExpr* call : named.owned) {
      std::vector<Replacement> inside = replacements;
      const SourceSpan whole = span(call->getSourceRange()), argument = span(call->getArg(0)->getSourceRange());
      std::erase_if(replacements, [&](const Replacement& one) {
        return whole.begin <= one.where.begin && one.where.end <= whole.end;
      });
      replacements.push_back({whole, family_.render(argument, entity_.levels[level], entity_, arguments, inside)});
    }
    return replacements;
  }

  /// The code around a call.
  struct CallSite {
    const clang::FunctionDecl& function;
    size_t level;
    const clang::Stmt& code;
    const clang::ParentMap& parents;
    const Substitution& arguments;
    std::set<std::string> names;     // names of its variables and parameters
    std::set<std::string>& inlined;  // variables of the bodies inlined into it
  };

  /// Replacements for the callee's parameters, with the conditions under which they are valid.
  struct Bound {
    Substitution substitution;
    bool can_repeat = true;     // anywhere and any number of times in the body
    bool can_move_once = true;  // in an expression without side effects that names each at most once
  };

  SourceSpan span(clang::SourceRange range) const { return family_.parsed().span(family_.specs().manager(), range); }
  const Level& level(size_t index) const { return entity_.levels[index]; }
  std::string type_text(clang::QualType type, size_t at) const { return family_.type_text(type, level(at), entity_); }

  Replacement replace(const SuperCall& call, const CallSite& site) {
    const std::string name = call.callee->getNameAsString();
    if (!supers_.is_redefined(*call.callee)) {
      // The class has this method unchanged. It is qualified with the class's own name, which the reference becomes, if
      // a bare name would mean something else.
      const bool is_hidden = site.names.count(name) || site.arguments.hidden.count(name);
      if (is_hidden || call.callee->isVirtual()) return {call.qualifier, own_qualifier(call)};
      return {call.qualifier, Fragment()};
    }
    const clang::FunctionDecl* definition = nullptr;
    const clang::Stmt* body = call.callee->getBody(definition);
    if (!body || call.callee->isTemplateInstantiation() || call.callee->isStatic() || !call.is_on_this())
      return keep(call, site);
    const SideEffects effects = find_side_effects(body, meant_);
    if (const auto bound = bind(call, site, *definition, effects)) {
      if (auto text = as_expression(call, site, *definition, *body, *bound)) return std::move(*text);
      if (auto text = as_statements(call, site, *definition, *body, effects, *bound)) return std::move(*text);
    }
    return keep(call, site);
  }

  Fragment own_qualifier(const SuperCall& call) const {
    Fragment text;
    text.add(entity_.name + (entity_.is_module() ? "Impl" : "") + "::", call.qualifier);
    return text;
  }

  /// The name of a library's class from within a family's namespace.
  static Fragment library_qualifier(const clang::CXXRecordDecl& owner, SourceSpan where) {
    std::string name = owner.getQualifiedNameAsString();
    if (name.starts_with("modular::")) name.erase(0, std::string_view("modular::").size());
    Fragment text;
    text.add(name + "::", where);
    return text;
  }

  /// The callee's parameters bound to the call's arguments; nullopt if the callee's text cannot move.
  std::optional<Bound> bind(const SuperCall& call, const CallSite& site, const clang::FunctionDecl& definition,
                            const SideEffects& body) {
    // Constness decides among overloads.
    const auto* caller = llvm::dyn_cast<clang::CXXMethodDecl>(&site.function);
    if (caller && call.callee->isConst() != caller->isConst()) return std::nullopt;
    if (cannot_throw(definition) || shows_how_it_is_written(definition) || shows_how_it_is_written(site.function))
      return std::nullopt;
    Bound bound;
    bound.substitution.hidden = site.arguments.hidden;
    bound.substitution.hidden.insert(site.names.begin(), site.names.end());
    std::set<std::string> words;  // words of the arguments
    bool changes_an_argument = false;
    for (unsigned index = 0; index < definition.getNumParams(); ++index) {
      const clang::ParmVarDecl* parameter = definition.getParamDecl(index);
      const clang::Expr* argument = index < call.call->getNumArgs() ? call.call->getArg(index) : nullptr;
      const bool is_default = !argument || llvm::isa<clang::CXXDefaultArgExpr>(argument);
      if (is_default) argument = parameter->getDefaultArg();
      const size_t from = is_default ? call.level : site.level;
      const clang::Expr* spelled = argument->IgnoreUnlessSpelledInSource();
      if (is_list(family_, span(argument->getSourceRange()))) return std::nullopt;
      if (type_text(spelled->getType(), from) != type_text(parameter->getType(), call.level)) return std::nullopt;
      const clang::QualType type = parameter->getType();
      const bool by_reference = type->isReferenceType();
      if (by_reference ? type->isRValueReferenceType() : body.written_variables.count(parameter) != 0)
        return std::nullopt;
      changes_an_argument |= by_reference && !type->getPointeeType().isConstQualified();
      const SideEffects own = find_side_effects(argument, meant_);
      const bool is_copied = !by_reference || !spelled->isGLValue();  // the body reads the value at the call
      const bool stays = is_trivial_argument(*argument) && own.is_pure() && !reads_what_changes(own, body) &&
                         !(is_copied && body.changes_fields() && reads_by_reference(*argument));
      const bool is_name = names_local(*spelled);
      bound.can_repeat &= stays && (is_name || !body.captures);
      bound.can_move_once &=
          stays || (own.is_pure_and_ends() && body.is_pure() && !body.captures && uses(definition, *parameter) <= 1);
      std::vector<Replacement> inside;  // super calls in the argument
      if (!is_default) inside = in(site.function, site.level, *argument, site.arguments);
      Fragment text = family_.render(span(argument->getSourceRange()), level(from), entity_,
                                     is_default ? Substitution{} : site.arguments, inside);
      const std::set<std::string> argument_words = words_in(family_, span(argument->getSourceRange()));
      if (is_default && (meet(argument_words, site.names) || meet(argument_words, site.arguments.hidden)))
        return std::nullopt;
      words.insert(argument_words.begin(), argument_words.end());
      bound.substitution.texts[parameter] =
          tight(std::move(text), *argument, is_replaced_entirely(inside, span(argument->getSourceRange())));
    }
    if (changes_an_argument && definition.getNumParams() > 1) return std::nullopt;
    if (meet(body.declared, words) ||
        captured_name(family_, span(definition.getBody()->getSourceRange()), bound.substitution.hidden))
      return std::nullopt;
    return bound;
  }

  /// Whether the function has a decltype, to which parentheses, names and values of one type differ.
  bool shows_how_it_is_written(const clang::FunctionDecl& function) const {
    return words_in(family_, span(function.getSourceRange())).count("decltype") != 0;
  }

  /// Whether the argument's value may have changed by the time the body uses it.
  static bool reads_what_changes(const SideEffects& argument, const SideEffects& body) {
    return (!argument.reads.empty() || argument.reads_everything) && !commute(argument, body);
  }

  /// Whether one replacement covers all of `where`: the value of a super call.
  static bool is_replaced_entirely(const std::vector<Replacement>& replacements, SourceSpan where) {
    return std::any_of(replacements.begin(), replacements.end(), [&](const Replacement& one) {
      return one.where.begin <= where.begin && where.end <= one.where.end;
    });
  }

  static int uses(const clang::FunctionDecl& function, const clang::ParmVarDecl& parameter) {
    struct Counter : SyntaxVisitor {
      const clang::ParmVarDecl* parameter;
      int uses = 0;
      bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override {
        uses += expr->getDecl() == parameter;
        return true;
      }
    } counter;
    counter.parameter = &parameter;
    counter.visit(function.getBody());
    return counter.uses;
  }

  std::optional<Replacement> as_expression(const SuperCall& call, const CallSite& site,
                                           const clang::FunctionDecl& definition, const clang::Stmt& body,
                                           const Bound& bound) {
    const clang::Expr* value = returned(body);
    if (!value || !(bound.can_repeat || bound.can_move_once)) return std::nullopt;
    if (find_single(body) || has_acting_temporary(*value)) return std::nullopt;
    const clang::Stmt* parent = meaningful_parent(site.parents, call.call);
    const bool is_alone = !parent || !llvm::isa<clang::Expr>(parent);
    if (changes_by_operator(*value) ? !is_alone : is_next_to_changes(call, site)) return std::nullopt;
    if (!is_returned_value(*value, definition, call.level, copies(parent, site.function))) return std::nullopt;
    const SourceSpan whole = span(call.call->getSourceRange());
    std::vector<Replacement> inside = in(definition, call.level, *value, bound.substitution);
    Fragment text =
        family_.render(span(value->getSourceRange()), level(call.level), entity_, bound.substitution, inside);
    if (!takes_any_expression(parent, *call.call) || is_comma(*value))
      text = tight(std::move(text), *value, is_replaced_entirely(inside, span(value->getSourceRange())));
    return Replacement{whole, with_cause(std::move(text), whole, site.level)};
  }

  /// Whether other parts of the expression around the call change variables by built-in operators.
  static bool is_next_to_changes(const SuperCall& call, const CallSite& site) {
    const clang::Stmt* inner = call.call;
    for (const clang::Stmt* around = site.parents.getParent(inner); around && llvm::isa<clang::Expr>(around);
         inner = around, around = site.parents.getParent(around))
      for (const clang::Stmt* part : around->children())
        if (part && part != inner && changes_by_operator(*part)) return true;
    return false;
  }

  /// Whether `value`, as written, equals the result of a call of `function`: it has that type, and is a value of its
  /// own unless its consumer copies it.
  bool is_returned_value(const clang::Expr& value, const clang::FunctionDecl& function, size_t at,
                         bool is_copied) const {
    const clang::Expr* spelled = value.IgnoreUnlessSpelledInSource();
    if (is_list(family_, span(value.getSourceRange()))) return false;
    if (type_text(spelled->getType(), at) != type_text(function.getReturnType(), at)) return false;
    if (function.getReturnType()->isReferenceType()) return spelled->isLValue();
    return spelled->isPRValue() || is_copied;
  }

  std::optional<Replacement> as_statements(const SuperCall& call, const CallSite& site,
                                           const clang::FunctionDecl& definition, const clang::Stmt& body,
                                           const SideEffects& effects, const Bound& bound) {
    const clang::Stmt* parent = meaningful_parent(site.parents, call.call);
    const bool is_statement = parent == &site.code && !effects.returns;
    const bool is_returned =
        parent && llvm::isa<clang::ReturnStmt>(parent) && site.parents.getParent(parent) == &site.code &&
        !definition.getReturnType()->isVoidType() &&
        definition.getReturnType()->isReferenceType() == site.function.getReturnType()->isReferenceType() &&
        type_text(definition.getReturnType(), call.level) == type_text(site.function.getReturnType(), site.level);
    if (!bound.can_repeat || !(is_statement || is_returned) || find_single(body)) return std::nullopt;
    if (!llvm::isa<clang::CompoundStmt>(body)) return std::nullopt;  // a function-try-block
    if (is_statement && leaves_a_guard(body)) return std::nullopt;
    // The names of the body's variables must be free in the caller.
    const SourceSpan caller = span(site.code.getSourceRange());
    std::set<std::string> around = words_in(family_, caller);
    around.insert(surroundings_.begin(), surroundings_.end());
    if (meet(effects.declared, site.names) || meet(effects.declared, around) ||
        meet(effects.declared, site.arguments.hidden) || meet(effects.declared, site.inlined))
      return std::nullopt;
    site.inlined.insert(effects.declared.begin(), effects.declared.end());
    const SourceSpan whole = span(call.call->getSourceRange());
    SourceSpan target = is_returned ? span(parent->getSourceRange()) : whole;
    const std::string& text = family_.file_text(target.file);
    const uint32_t semicolon = next_code(text, target.end);
    if (semicolon < text.size() && text[semicolon] == ';') target.end = semicolon + 1;
    surroundings_.swap(around);
    std::vector<Replacement> inside = in(definition, call.level, body, bound.substitution, site.inlined);
    surroundings_.swap(around);
    Fragment statements;
    for (const auto& [stmt, slice] : statement_slices(family_, body))
      statements.append(family_.render(slice, level(call.level), entity_, bound.substitution, inside));
    return Replacement{target, with_cause(on_separate_lines(statements.trimmed(), target), whole, site.level)};
  }

  /// `text` of a base, with the call at `where` as its cause.
  Fragment with_cause(Fragment text, SourceSpan where, size_t level) const {
    if (level == 0) text.set_cause(where);
    return text;
  }

  /// A free name for the kept body of `callee`: not used by another kept body, a member or a variable of the caller.
  std::string kept_name(const clang::CXXMethodDecl& callee, const CallSite& site) const {
    std::string name = name_for_identifier(callee);
    const auto is_taken = [&] {
      const bool by_kept = std::any_of(kept_.begin(), kept_.end(), [&](const KeptMethod& one) {
        return one.name == name && one.origin->getParent() != callee.getParent();
      });
      const bool by_member = std::any_of(entity_.levels.begin(), entity_.levels.end(), [&](const Level& level) {
        return std::any_of(level.symbol->record->decls_begin(), level.symbol->record->decls_end(),
                           [&](const auto* decl) {
                             const auto* named = llvm::dyn_cast<clang::NamedDecl>(decl);
                             return named && named->getDeclName().isIdentifier() && named->getName() == name;
                           });
      });
      return by_kept || by_member || site.names.count(name) != 0 || site.arguments.hidden.count(name) != 0;
    };
    do name = "inherited_" + name;
    while (is_taken());
    return name;
  }

  /// Keeps the base's method under a new name.
  Replacement keep(const SuperCall& call, const CallSite& site) {
    const SourceSpan qualified{call.qualifier.file, call.qualifier.begin, call.name.end};
    const auto known =
        std::find_if(kept_.begin(), kept_.end(), [&](const KeptMethod& one) { return one.origin == call.callee; });
    Fragment used;
    if (known != kept_.end()) {
      const bool is_hidden = site.names.count(known->name) || site.arguments.hidden.count(known->name);
      used.add((is_hidden && !call.object ? "this->" : "") + known->name, qualified);
      return {qualified, used};
    }
    const std::string name = kept_name(*call.callee, site);
    used.add(name, qualified);
    kept_.push_back({name, call.callee, {}, false});
    const size_t index = kept_.size() - 1;
    const clang::FunctionDecl* called = call.callee;
    if (const clang::FunctionDecl* pattern = called->getTemplateInstantiationPattern()) called = pattern;
    const clang::FunctionDecl* definition = nullptr;
    const clang::Stmt* body = called->getBody(definition);
    if (!body) {
      family_.specs().reject(qualified, "'" + called->getQualifiedNameAsString() + "' has no body in a spec",
                             "define it in its class");
      return {qualified, used};
    }
    const auto* declared = llvm::cast<clang::FunctionDecl>(called->getCanonicalDecl());
    MovableBody movable(entity_, call.level, *declared, name);
    std::vector<Replacement> inside = movable.render([&] { return in(*definition, call.level, *body, {}); });
    const SourceSpan own_name = span(declared->getNameInfo().getSourceRange());
    Fragment renamed;
    renamed.add(name, own_name);
    inside.push_back({own_name, renamed});
    for (const auto* attribute : declared->attrs())
      if (llvm::isa<clang::OverrideAttr, clang::FinalAttr>(attribute))
        inside.push_back({span(attribute->getRange()), Fragment()});
    const auto render = [&](SourceSpan where) { return family_.render(where, level(call.level), entity_, {}, inside); };
    const auto* function_template = declared->getDescribedFunctionTemplate();
    SourceSpan whole = family_.parsed().span(
        family_.specs().manager(), function_template ? static_cast<const clang::Decl&>(*function_template) : *declared);
    if (declared->isVirtualAsWritten()) {  // calls name it without a qualifier
      const std::string& text = family_.file_text(whole.file);
      for (const RawToken& token : raw_tokens(text, whole.begin, own_name.begin))
        if (text.compare(token.begin, token.end - token.begin, "virtual") == 0)
          inside.push_back({{whole.file, token.begin, token.end + (text[token.end] == ' ')}, Fragment()});
    }
    const SourceSpan code = span(body->getSourceRange());
    const bool is_outside = declared != definition;  // defined outside its class
    whole.end = is_outside ? pure_specifier(family_, *declared).begin : code.begin;
    Fragment text = render(whole);
    text.append(movable.text([&] {
      Fragment own(is_outside ? " " : "");
      own.append(render(code));
      return own;
    }));
    movable.add_values(family_, *definition);
    kept_[index].text = with_cause(std::move(text), qualified, site.level);
    kept_[index].comes_first = deduces_result(*declared);
    return {qualified, used};
  }

  /// Adds line breaks around `statements` if the code at `target` shares its line with other code.
  Fragment on_separate_lines(const Fragment& statements, SourceSpan target) const {
    const std::string& text = family_.file_text(target.file);
    uint32_t before = target.begin, after = target.end;
    while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t')) --before;
    while (after < text.size() && (text[after] == ' ' || text[after] == '\t')) ++after;
    Fragment result;
    if (before > 0 && text[before - 1] != '\n') result.add(std::string("\n"));
    result.append(statements);
    if (after < text.size() && text[after] != '\n') result.add(std::string("\n"));
    return result;
  }

  Family& family_;
  Entity& entity_;
  Supers& supers_;
  std::vector<KeptMethod>& kept_;
  const MethodsMeant meant_;
  std::set<std::string> surroundings_;  // words of the code that the current bodies are inlined into
};

}  // namespace

std::vector<Replacement> super_calls(Family& family, Entity& entity, size_t level, const clang::Decl& method,
                                     const Substitution& arguments, Supers& supers) {
  const clang::FunctionDecl* function = method.getAsFunction();
  if (!function || !function->hasBody()) return {};
  SuperCalls calls(family, entity, supers);
  std::vector<Replacement> replacements;
  const auto take = [&](const clang::Stmt& code) {
    std::vector<Replacement> here = calls.in(*function, level, code, arguments);
    std::move(here.begin(), here.end(), std::back_inserter(replacements));
  };
  if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(function))
    for (const clang::CXXCtorInitializer* init : constructor->inits())
      if (init->isWritten() && init->getInit()) take(*init->getInit());
  take(*function->getBody());
  return replacements;
}

}  // namespace modgen
