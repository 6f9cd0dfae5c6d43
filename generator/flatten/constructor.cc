// Inlines the base's constructor into the derived one, so that it reads as if written for this class. Parts keep C++'s
// order of execution wherever one of them reads or modifies state that another modifies.
#include <clang/AST/Attr.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/base_call.h"
#include "generator/flatten/captures.h"
#include "generator/flatten/constructor_parts.h"
#include "generator/flatten/family.h"
#include "generator/resolve/effects.h"
#include "generator/source/edits.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// Replacements for the base's parameters and variables, and the words that variables must not take.
struct Scope {
  Substitution substitution;
  std::set<std::string> words;  // words of the derived classes' constructors
};

class ConstructorInliner {
 public:
  explicit ConstructorInliner(const ConstructorContext& context)
      : context_(context),
        family_(context.family),
        entity_(context.entity),
        parsed_(family_.parsed()),
        manager_(family_.specs().manager()),
        meant_(methods_meant(entity_)) {}

  Fragment make(size_t level, const clang::CXXConstructorDecl& declared, SourceSpan slice) {
    const auto& constructor = llvm::cast<clang::CXXConstructorDecl>(Specs::defined(declared));
    // Nothing to inline: the text stays as it is.
    const bool in_class = &constructor == &declared;
    const bool is_root = level + 1 == entity_.levels.size();
    const bool stays = is_root && context_.dropped.empty() && in_class;
    const bool has_body = constructor.getBody() && !constructor.isDefaulted();  // Clang synthesizes one if it is used
    if ((stays && !initializes_below(level)) || (!has_body && (is_root || !constructor.isDefaulted())))
      return render(slice, level, {});
    first_ = level;
    for (const clang::ParmVarDecl* parameter : constructor.parameters())
      if (parameter->getDeclName()) parameters_.insert(parameter->getNameAsString());
    if (has_body)
      inline_constructor(level, constructor, {});
    else
      run_base(default_base_call(family_, entity_, level, constructor), level, {}, {},
               entity_.levels[level].symbol->where);
    add_implicit_between(0, has_body ? level : level + 1);
    check_skipped_fields();
    check_returns();
    const Arranged parts = arranged(std::move(parts_), [this](const Part& part) { return rank(part); });
    for (const Misplaced& misplaced : parts.misplaced) reject_misplaced(misplaced);
    if (stays) return render(slice, level, {});

    const uint32_t end = in_class && has_body ? head_end(constructor) : parameters_end(declared);
    Fragment text;
    for (size_t index = 0; index < parts.initializers.size(); ++index) {
      const Part& part = parts.initializers[index];
      text.add(std::string(index == 0 ? "\n : " : ",\n"));
      if (const Fragment comment = part.comment(); !comment.empty()) {
        text.append(comment);
        text.add(std::string("\n"));
      }
      text.append(part.text());
    }
    text.add(std::string(" {"));
    for (const Part& part : parts.statements) {
      text.add(std::string("\n"));
      text.append(part.text());
    }
    if (const Fragment tail = tail_.trimmed(); !tail.empty()) {
      text.add(std::string("\n"));
      text.append(tail);
      text.add(std::string("\n"));
    }
    text.add(std::string(parts.statements.empty() ? "}" : "\n}"));
    Fragment result =
        render({slice.file, slice.begin, end}, level, {}, unused_parameters(declared, text.text())).trimmed();
    result.append(text);
    return result;
  }

 private:
  /// Comments out parameters that only a dropped initializer read, as in `double /*factor*/`.
  std::vector<Replacement> unused_parameters(const clang::CXXConstructorDecl& constructor,
                                             const std::string& code) const {
    std::set<std::string> words;
    for (const RawToken& token : raw_tokens(code, 0, static_cast<uint32_t>(code.size())))
      if (token.kind == RawToken::Kind::identifier) words.insert(code.substr(token.begin, token.end - token.begin));
    std::vector<Replacement> replacements;
    for (const clang::ParmVarDecl* parameter : constructor.parameters()) {
      if (!parameter->getDeclName() || words.count(parameter->getNameAsString()) ||
          parameter->hasAttr<clang::UnusedAttr>())
        continue;
      const SourceSpan name = parsed_.token(manager_, parameter->getLocation());
      Fragment comment;
      comment.add("/*" + parameter->getNameAsString() + "*/", name);
      replacements.push_back({name, comment});
    }
    return replacements;
  }

  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  Fragment render(SourceSpan where, size_t level, const Substitution& arguments,
                  std::vector<Replacement> replacements = {}) {
    return family_.render(where, entity_.levels[level], entity_, arguments, std::move(replacements));
  }
  std::string type_text(clang::QualType type, size_t level) const {
    return family_.type_text(type, entity_.levels[level], entity_);
  }

  size_t rank(const Part& part) const {
    if (part.kind == Part::Kind::library_base) return 0;
    const auto found = std::find(context_.field_order.begin(), context_.field_order.end(), part.field);
    return 1 + static_cast<size_t>(found - context_.field_order.begin());
  }

  /// Whether classes that derive from the class of `level` have default member initializers.
  bool initializes_below(size_t level) const {
    const auto initializes = [](const Level& one) {
      return std::any_of(one.symbol->record->field_begin(), one.symbol->record->field_end(),
                         [](const clang::FieldDecl* field) { return field->hasInClassInitializer(); });
    };
    return std::any_of(entity_.levels.begin(), entity_.levels.begin() + static_cast<long>(level), initializes);
  }

  /// End of the parameters and of qualifiers behind them, without the semicolon and without `= default`.
  uint32_t parameters_end(const clang::CXXConstructorDecl& constructor) const {
    const auto type = constructor.getFunctionTypeLoc();
    return type && constructor.isExplicitlyDefaulted() ? parsed_.token(manager_, type.getRParenLoc()).end
                                                       : span(constructor.getSourceRange()).end;
  }

  /// End of the signature: the colon of the initializers, or the body.
  uint32_t head_end(const clang::CXXConstructorDecl& constructor) const {
    const SourceSpan body = span(constructor.getBody()->getSourceRange());
    uint32_t end = body.begin;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten()) end = std::min(end, span(init->getSourceRange()).begin);
    if (end == body.begin) return end;
    const SourceSpan name = parsed_.token(manager_, constructor.getLocation());
    uint32_t colon = end;
    for (const RawToken& token : raw_tokens(family_.file_text(body.file), name.end, end))
      if (token.end == token.begin + 1 && family_.file_text(body.file)[token.begin] == ':') colon = token.begin;
    return colon;
  }

  bool is_dropped(const std::string& field, size_t level) const {
    const auto dropped = context_.dropped.find(field);
    return dropped != context_.dropped.end() && dropped->second < level;
  }

  // ---- One level's constructor --------------------------------------------------------------------------------------

  /// Appends the parts of `constructor` of `level`, those of its base's constructor first.
  void inline_constructor(size_t level, const clang::CXXConstructorDecl& constructor, Scope scope) {
    const SourceSpan body = span(constructor.getBody()->getSourceRange());
    if (level > first_) enter_scope(level, constructor, scope);
    const Substitution& arguments = scope.substitution;
    calls_[level] = super_calls(family_, entity_, level, constructor, arguments, context_.supers);

    std::vector<const clang::CXXCtorInitializer*> written;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten()) written.push_back(init);
    std::sort(written.begin(), written.end(),
              [](const auto* a, const auto* b) { return a->getSourceOrder() < b->getSourceOrder(); });
    std::vector<SourceSpan> cores;
    for (const auto* init : written) cores.push_back(span(init->getSourceRange()));
    const std::vector<SourceSpan> slices =
        written.empty() ? std::vector<SourceSpan>{}
                        : own_gaps(family_.file_text(body.file), {body.file, cores.front().begin, body.begin}, cores);
    const auto to_part_slice = [&](const clang::CXXCtorInitializer* init) {
      return slices[static_cast<size_t>(std::find(written.begin(), written.end(), init) - written.begin())];
    };
    if (!written.empty() && written.front()->isDelegatingInitializer())
      return family_.specs().reject(cores.front(), "modgen does not inline delegating constructors",
                                    "write out the initializers");

    // Initializers written before the base's run before it; the others run in the order of the fields.
    size_t begin = 0;
    while (begin < written.size() && !is_own_base(*written[begin])) ++begin;
    if (begin == written.size()) begin = 0;
    for (size_t index = 0; index < begin; ++index)
      add_initializer(*written[index], to_part_slice(written[index]), level, arguments);
    const std::set<const clang::CXXCtorInitializer*> done(written.begin(), written.begin() + static_cast<long>(begin));
    for (const clang::CXXCtorInitializer* init : constructor.inits()) {
      if (done.count(init)) continue;
      if (init->isBaseInitializer() && run_base(*init, level, scope, split_words(constructor))) continue;
      if (init->isWritten())
        add_initializer(*init, to_part_slice(init), level, arguments);
      else if (init->isAnyMemberInitializer())
        add_implicit(*init->getAnyMember(), level);
    }
    Substitution in_body = arguments;
    for (const auto& [parameter, argument, name] : variables_[level]) {
      in_body.texts.erase(parameter);
      if (!name.empty()) rename(*parameter, name, in_body);
      add_variable(*parameter, argument, level, in_body);
    }
    for (const auto& [stmt, slice] : statement_slices(family_, *constructor.getBody())) {
      if (!stmt)
        tail_.append(render(slice, level, in_body));
      else
        add_statement(*stmt, slice, level, in_body);
    }
  }

  bool is_own_base(const clang::CXXCtorInitializer& init) const {
    const auto* record = init.isBaseInitializer() ? init.getBaseClass()->getAsCXXRecordDecl() : nullptr;
    return record && family_.specs().symbol(record);
  }

  /// The words of a constructor: names that a variable of its base's constructor must not have.
  std::set<std::string> split_words(const clang::CXXConstructorDecl& constructor) const {
    return words_in(family_, span(constructor.getSourceRange()));
  }

  /// Prepares the scope for a base's code, which sees the parameters of the resulting constructor and whose variables
  /// end up next to that constructor's own.
  void enter_scope(size_t level, const clang::CXXConstructorDecl& constructor, Scope& scope) {
    Substitution& substitution = scope.substitution;
    substitution.hidden = parameters_;
    const SourceSpan whole = span(constructor.getSourceRange());
    SourceSpan code{whole.file, head_end(constructor), whole.end};
    if (const auto captured = captured_name(family_, code, parameters_))
      family_.specs().reject(entity_.levels[first_].symbol->where,
                             "the constructor has a parameter '" + *captured +
                                 "', and its base's constructor uses that name for something else",
                             "rename the parameter",
                             {{Diagnostic::Severity::note, code, "the base's constructor", "", {}}});
    struct Variables : clang::RecursiveASTVisitor<Variables> {
      std::vector<const clang::NamedDecl*> found;
      bool VisitVarDecl(clang::VarDecl* variable) {
        found.push_back(variable);
        return true;
      }
      bool VisitBindingDecl(clang::BindingDecl* binding) {
        found.push_back(binding);
        return true;
      }
    } variables;
    variables.TraverseStmt(constructor.getBody());
    std::set<std::string> taken = scope.words;
    for (const auto& [parameter, text] : substitution.texts)
      for (const RawToken& token : raw_tokens(text.text(), 0, static_cast<uint32_t>(text.size())))
        taken.insert(text.text().substr(token.begin, token.end - token.begin));
    const std::set<std::string> own = split_words(constructor);
    const auto free_name = [&](std::string name) {
      do name = "base_" + name;
      while (taken.count(name) || own.count(name) || !given_.insert(name).second);
      return name;
    };
    for (const clang::NamedDecl* variable : variables.found)
      if (variable->getDeclName() && taken.count(variable->getNameAsString()))
        rename(*variable, free_name(variable->getNameAsString()), substitution);
    for (auto& [parameter, argument, name] : variables_[level])
      if (taken.count(parameter->getNameAsString()) || parameters_.count(parameter->getNameAsString()))
        name = free_name(parameter->getNameAsString());
  }

  void rename(const clang::NamedDecl& variable, const std::string& name, Substitution& substitution) const {
    Fragment text;
    text.add(name, parsed_.token(manager_, variable.getLocation()));
    substitution.texts[&variable] = text;
  }

  /// Inlines the constructor of a base that is a level of this class; false if the base is a library's class.
  bool run_base(const clang::CXXCtorInitializer& init, size_t level, const Scope& outer, std::set<std::string> words) {
    const std::optional<BaseCall> call = base_call(family_, entity_, level, init);
    if (!call) return false;
    for (const size_t skipped : call->skipped) check_skipped(skipped, init);
    run_base(*call, level, outer, std::move(words),
             init.isWritten() ? span(init.getSourceRange()) : entity_.levels[level].symbol->where);
    return true;
  }

  void run_base(const BaseCall& call, size_t level, const Scope& outer, std::set<std::string> words, SourceSpan cause) {
    if (!call.constructor) return;
    words.insert(outer.words.begin(), outer.words.end());
    const size_t begin = parts_.size();
    BoundArguments bound = base_arguments(family_, entity_, call, level, outer.substitution);
    variables_[call.level] = std::move(bound.variables);
    inline_constructor(call.level, *call.constructor, {std::move(bound.substitution), std::move(words)});
    add_implicit_between(level + 1, call.level);
    if (level != first_) return;
    const auto with_cause = [cause](Later text) -> Later {
      if (!text) return text;
      return [cause, text = std::move(text)] {
        Fragment result = text();
        result.set_cause(cause);
        return result;
      };
    };
    for (size_t index = begin; index < parts_.size(); ++index) {
      parts_[index].text = with_cause(std::move(parts_[index].text));
      parts_[index].assignment = with_cause(std::move(parts_[index].assignment));
    }
  }

  // ---- Initializers -------------------------------------------------------------------------------------------------

  void add_initializer(const clang::CXXCtorInitializer& init, SourceSpan slice, size_t level,
                       const Substitution& arguments) {
    const SourceSpan where = span(init.getSourceRange());
    Part part;
    part.kind = init.isBaseInitializer() ? Part::Kind::library_base : Part::Kind::initializer;
    part.level = level;
    part.where = where;
    if (init.isAnyMemberInitializer()) part.field = init.getAnyMember()->getNameAsString();
    if (is_dropped(part.field, level)) return void(initialized_.insert(part.field));
    part.registered = registered_name(init.getInit());
    part.effects = find_side_effects(init.getInit(), meant_);
    if (!part.field.empty()) part.effects.writes.insert(part.field);
    part.comment = comments_at(slice, where, level, arguments);
    part.text = [this, where, level, arguments] { return render(where, level, arguments, calls_[level]); };
    if (init.isAnyMemberInitializer()) make_assignable(init, level, arguments, part);
    erase_inherited(part);
    parts_.push_back(std::move(part));
  }

  /// Drops the base's initialization of a field that is redeclared and initialized here.
  void erase_inherited(const Part& part) {
    std::erase_if(parts_, [&](const Part& one) {
      const bool initializes = one.kind == Part::Kind::initializer || one.kind == Part::Kind::implicit;
      return initializes && !part.field.empty() && one.field == part.field;
    });
  }

  /// Adds the default member initializers of levels in [first, end) for fields that no user-provided constructor
  /// initializes. C++ runs them after the constructor of the class below them, of level `end`.
  void add_implicit_between(size_t first, size_t end) {
    for (size_t level = end; level-- > first;)
      for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) add_implicit(*field, level);
  }

  void add_implicit(const clang::FieldDecl& field, size_t level) {
    const std::string name = field.getNameAsString();
    const bool is_known = std::any_of(parts_.begin(), parts_.end(), [&](const Part& one) { return one.field == name; });
    // A redeclared field stays at the inherited position, with its own initializer.
    const bool is_inherited = std::any_of(entity_.levels.begin() + static_cast<long>(level) + 1, entity_.levels.end(),
                                          [&](const Level& one) { return one.symbol->declares_field(name); });
    if (!field.hasInClassInitializer() || is_dropped(name, level) || is_known || is_inherited) return;
    Part part;
    part.kind = Part::Kind::implicit;
    part.field = name;
    part.level = level;
    part.where = parsed_.token(manager_, field.getLocation());
    part.effects = find_side_effects(field.getInClassInitializer(), meant_);
    part.effects.writes.insert(name);
    parts_.push_back(std::move(part));
  }

  /// Rewrites `gain(offset * 2)` as `gain = offset * 2;`, to run after the base's body, which sets `offset`.
  void make_assignable(const clang::CXXCtorInitializer& init, size_t level, const Substitution& arguments, Part& part) {
    const clang::FieldDecl& field = *init.getAnyMember();
    const clang::Expr* value = init.getInit()->IgnoreImplicit();
    if (const auto* list = llvm::dyn_cast<clang::ParenListExpr>(value); list && list->getNumExprs() == 1)
      value = list->getExpr(0);
    if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(value); list && list->getNumInits() == 1)
      value = list->getInit(0);
    if (const auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(value);
        made && !llvm::isa<clang::CXXTemporaryObjectExpr>(made) && made->getNumArgs() == 1)
      value = made->getArg(0);
    const bool several =
        llvm::isa<clang::ParenListExpr, clang::InitListExpr>(value) ||
        (llvm::isa<clang::CXXConstructExpr>(value) && !llvm::isa<clang::CXXTemporaryObjectExpr>(value)) ||
        llvm::isa<clang::ImplicitValueInitExpr>(value);
    const clang::Expr* spelled = value->IgnoreUnlessSpelledInSource();
    const bool same = field.getType()->isArithmeticType() || field.getType()->isEnumeralType() ||
                      type_text(spelled->getType(), level) == type_text(field.getType(), level);
    if (field.getType().isConstQualified() || field.getType()->isReferenceType())
      part.obstacle = "declare it without const and without a reference";
    else if (several || !same)
      part.obstacle = "assign it in the constructor's body";
    if (!part.obstacle.empty()) return;
    part.assignment = [this, name = part.field, value = span(value->getSourceRange()), level, arguments] {
      const std::string member =
          family_.member_name(name, *entity_.levels[level].symbol, entity_.levels[level], entity_);
      Fragment text((parameters_.count(member) ? "this->" : "") + member + " = ");
      text.append(render(value, level, arguments, calls_[level]));
      text.add(std::string(";"));
      return text;
    };
  }

  void reject_misplaced(const Misplaced& misplaced) {
    const bool after_body = misplaced.other.kind == Part::Kind::statement;
    const std::string advice =
        misplaced.part.kind == Part::Kind::implicit ? "assign it in the constructor's body" : misplaced.part.obstacle;
    family_.specs().reject(misplaced.part.where,
                           after_body ? "'" + misplaced.part.field +
                                            "' is initialized from state that the body of the base's constructor sets, "
                                            "and cannot be assigned after it"
                                      : "'" + misplaced.part.field + "' would be initialized before '" +
                                            misplaced.other.field + "', and one of them depends on the other",
                           advice, {{Diagnostic::Severity::note, misplaced.other.where, "this comes first", "", {}}});
  }

  /// Comments above an initializer and behind it.
  Later comments_at(SourceSpan slice, SourceSpan core, size_t level, const Substitution& arguments) {
    const std::string& text = family_.file_text(slice.file);
    uint32_t after = core.end;
    while (after < slice.end && (text[after] == ',' || text[after] == ' ')) ++after;
    return [this, above = comment_above(slice, level, arguments), level, arguments,
            comment = leading_comment(text, {slice.file, after, slice.end})] {
      Fragment result = above();
      if (comment.begin == comment.end) return result;
      if (!result.empty()) result.add(std::string("\n"));
      result.append(render(comment, level, arguments));
      return result;
    };
  }

  Later comment_above(SourceSpan slice, size_t level, const Substitution& arguments) {
    const SourceSpan comment = leading_comment(family_.file_text(slice.file), slice);
    return [this, comment, level, arguments] {
      return comment.begin < comment.end ? render(comment, level, arguments) : Fragment();
    };
  }

  /// Records the fields of a level whose constructor is skipped: this class has to set them.
  void check_skipped(size_t level, const clang::CXXCtorInitializer& init) {
    for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) {
      const std::string name = field->getNameAsString();
      const bool stays =
          std::find(context_.field_order.begin(), context_.field_order.end(), name) != context_.field_order.end();
      if (stays && !field->hasInClassInitializer() && !context_.dropped.count(name))
        skipped_.push_back({name, field, span(init.getSourceRange())});
    }
  }

  /// Whether `if (parameter) statement` has `true` as its argument. With `false` the statement stays, because it may
  /// hold the only registration of a module.
  static bool always_holds(const clang::IfStmt& condition, const Substitution& arguments) {
    const auto* named = llvm::dyn_cast<clang::DeclRefExpr>(condition.getCond()->IgnoreParenImpCasts());
    const auto argument = arguments.texts.find(named ? llvm::dyn_cast<clang::ParmVarDecl>(named->getDecl()) : nullptr);
    return argument != arguments.texts.end() && argument->second.text() == "true" && !condition.hasElseStorage() &&
           !condition.hasInitStorage() && !llvm::isa<clang::CompoundStmt>(condition.getThen());
  }

  void check_skipped_fields() {
    for (const Skipped& skipped : skipped_) {
      const auto sets = [&](const Part& part) {
        return part.kind != Part::Kind::implicit &&
               (part.field == skipped.name || part.effects.writes.count(skipped.name));
      };
      if (std::none_of(parts_.begin(), parts_.end(), sets))
        family_.specs().reject(skipped.where,
                               "nothing sets '" + skipped.name + "': the constructor of its class is skipped",
                               "set it in this constructor, or remove it with a private using-declaration",
                               {{Diagnostic::Severity::note,
                                 parsed_.token(manager_, skipped.field->getLocation()),
                                 "'" + skipped.name + "'",
                                 "",
                                 {}}});
    }
  }

  /// A return in a base's body would end the whole constructor.
  void check_returns() {
    for (size_t index = 0; index + 1 < parts_.size(); ++index) {
      const Part& part = parts_[index];
      if (part.kind != Part::Kind::statement || !part.effects.returns || part.level == first_) continue;
      const auto later =
          std::find_if(parts_.begin() + static_cast<long>(index) + 1, parts_.end(),
                       [&](const Part& one) { return one.level < part.level && one.kind == Part::Kind::statement; });
      if (later == parts_.end()) continue;
      family_.specs().reject(later->where, "this would not run where the base's constructor returns early",
                             "let the base's constructor run to its end, or redefine it here without calling it",
                             {{Diagnostic::Severity::note, part.where, "it returns here", "", {}}});
      return;
    }
  }

  // ---- Statements ---------------------------------------------------------------------------------------------------

  /// Adds a variable for a parameter of the base's constructor that the body modifies, or that would be evaluated more
  /// than once.
  void add_variable(const clang::ParmVarDecl& parameter, const Fragment& argument, size_t level,
                    const Substitution& arguments) {
    Part part;
    part.level = level;
    part.where = span(parameter.getSourceRange());
    part.effects.written_variables.insert(&parameter);
    SourceSpan declared = part.where;
    declared.end = parsed_.token(manager_, parameter.getLocation()).end;
    part.text = [this, declared, argument, level, arguments] {
      Fragment text = render(declared, level, arguments);
      text.add(std::string(" = "));
      text.append(argument);
      text.add(std::string(";"));
      return text;
    };
    if (const auto renamed = arguments.texts.find(&parameter); renamed != arguments.texts.end()) {
      const SourceSpan name = parsed_.token(manager_, parameter.getLocation());
      part.text = [this, declared, name, argument, level, arguments, other = renamed->second] {
        Fragment text = render({declared.file, declared.begin, name.begin}, level, arguments);
        text.append(other);
        text.add(std::string(" = "));
        text.append(argument);
        text.add(std::string(";"));
        return text;
      };
    }
    parts_.push_back(std::move(part));
  }

  /// Appends a statement, or replaces the inherited part that has the same target. `comment` goes above it.
  void add_statement(const clang::Stmt& stmt, SourceSpan slice, size_t level, const Substitution& arguments,
                     SourceSpan comment = {}) {
    const SourceSpan above = comment.empty() ? leading_comment(family_.file_text(slice.file), slice) : comment;
    if (const auto* condition = llvm::dyn_cast<clang::IfStmt>(&stmt);
        condition && always_holds(*condition, arguments)) {
      const clang::Stmt& then = *condition->getThen();
      return add_statement(then, {slice.file, span(then.getSourceRange()).begin, slice.end}, level, arguments, above);
    }
    const clang::Stmt* inner = &stmt;
    if (const auto* expr = llvm::dyn_cast<clang::Expr>(inner)) inner = expr->IgnoreImplicit();
    if (is_remove(*inner)) return;
    const Assignment assignment = assignment_in(*inner);
    Part part;
    part.level = level;
    part.where = span(stmt.getSourceRange());
    part.field = assignment.field;
    part.registered = registered_name(&stmt);
    if (is_dropped(part.field, level)) {
      const bool is_creation = !assignment.decl->hasInClassInitializer() && initialized_.insert(part.field).second;
      if (!is_creation && part.registered.empty() && !entity_.removed.count(part.field)) reject_overwritten(part);
      return;
    }
    // A statement that only serves a removed member goes with it.
    if (!part.registered.empty() && is_dropped(part.registered, level) && part.field.empty()) return;
    part.effects = find_side_effects(&stmt, meant_);
    if (changes_only(part.effects, [&](const std::string& field) { return is_dropped(field, level); })) return;
    part.text = [this, slice, comment, level, arguments] {
      Fragment text = comment.empty() ? Fragment() : render(comment, level, arguments);
      if (!text.empty()) text.add(std::string("\n"));
      text.append(render(slice, level, arguments, calls_[level]).trimmed());
      return text;
    };
    if (level + 1 < entity_.levels.size() && replace_inherited_part(part, assignment, above, level, arguments)) return;
    parts_.push_back(std::move(part));
  }

  struct Assignment {
    std::string field;  // empty if the statement is not an assignment
    const clang::FieldDecl* decl = nullptr;
    const clang::Expr* value = nullptr;
  };

  static Assignment assignment_in(const clang::Stmt& statement) {
    const clang::Expr *target = nullptr, *value = nullptr;
    if (const auto* binary = llvm::dyn_cast<clang::BinaryOperator>(&statement);
        binary && binary->getOpcode() == clang::BO_Assign) {
      target = binary->getLHS();
      value = binary->getRHS();
    } else if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(&statement);
               call && call->getOperator() == clang::OO_Equal) {
      target = call->getArg(0);
      value = call->getArg(1);
    }
    if (!target || own_field(target).empty()) return {};
    const auto* member = llvm::cast<clang::MemberExpr>(target->IgnoreParenImpCasts());
    return {own_field(target), llvm::cast<clang::FieldDecl>(member->getMemberDecl()), value};
  }

  /// Replaces the inherited part that sets or registers the same member with `part`; false if `part` has to run after
  /// all parts so far. The position matters only for a member that is registered again: it determines the order of the
  /// state dict.
  bool replace_inherited_part(const Part& part, const Assignment& assignment, SourceSpan comment, size_t level,
                              const Substitution& arguments) {
    const auto inherited = std::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& one) {
      return (!part.field.empty() && one.field == part.field) ||
             (part.field.empty() && !part.registered.empty() && one.registered == part.registered);
    });
    if (inherited == parts_.rend() || inherited->level <= level || inherited->kind == Part::Kind::implicit)
      return false;
    const bool again = !part.registered.empty() && inherited->registered == part.registered;
    SideEffects value = assignment.value ? find_side_effects(assignment.value, meant_) : part.effects;
    const bool reads_itself = !part.field.empty() && value.reads.count(part.field) != 0;
    bool fits =
        !reads_itself && names_no_variable(value) && (again || replaces_value(*inherited, part, assignment, level));
    for (auto later = inherited.base(); later != parts_.end(); ++later)
      fits &= commute(later->effects, part.effects) && !later->effects.reads.count(part.field);
    const bool as_initializer = inherited->kind == Part::Kind::initializer;
    if (as_initializer) fits &= assignment.value && is_readable_at(value, rank(part));
    if (!as_initializer) fits &= !meet(words_in(family_, part.where), declared_by(inherited->level));
    if (!fits) {
      if (again) reject_order(part);
      return again;
    }
    if (!as_initializer) {
      inherited->text = part.text;
    } else {
      inherited->text = [this, field = part.field, where = span(assignment.value->getSourceRange()), level, arguments] {
        const Symbol& owner = *entity_.levels[level].symbol;
        Fragment text(family_.member_name(field, owner, entity_.levels[level], entity_) + "(");
        text.append(render(where, level, arguments, calls_[level]));
        text.add(std::string(")"));
        return text;
      };
      inherited->assignment = nullptr;
      inherited->obstacle = "redefine the constructor without calling the base's";
      if (!comment.empty())
        inherited->comment = [this, comment, level, arguments] { return render(comment, level, arguments); };
    }
    inherited->registered = part.registered;
    inherited->effects = part.effects;
    inherited->where = part.where;
    inherited->level = level;
    return true;
  }

  /// Whether everything that `value` names is visible throughout the resulting constructor: no variables of a body.
  static bool names_no_variable(const SideEffects& value) {
    return std::all_of(value.read_variables.begin(), value.read_variables.end(), [&](const clang::VarDecl* variable) {
      return llvm::isa<clang::ParmVarDecl>(variable) || value.declared.count(variable->getNameAsString());
    });
  }

  /// Whether dropping the value of `inherited` loses no side effects, and the assignment yields the same value as the
  /// initialization would.
  bool replaces_value(const Part& inherited, const Part& part, const Assignment& assignment, size_t level) const {
    if (!assignment.value || part.field.empty()) return false;
    SideEffects lost = inherited.effects;
    lost.writes.erase(part.field);
    const clang::QualType type = assignment.decl->getType();
    const clang::Expr* spelled = assignment.value->IgnoreUnlessSpelledInSource();
    return lost.is_pure() && !llvm::isa<clang::InitListExpr>(spelled) &&
           (type->isArithmeticType() || type->isEnumeralType() ||
            type_text(spelled->getType(), level) == type_text(type, level));
  }

  /// Whether all fields that `value` reads are initialized before the field of rank `field_rank`.
  bool is_readable_at(const SideEffects& value, size_t field_rank) const {
    return !value.reads_everything &&
           std::all_of(value.reads.begin(), value.reads.end(), [&](const std::string& field) {
             Part read;
             read.kind = Part::Kind::initializer;
             read.field = field;
             return rank(read) < field_rank;
           });
  }

  /// Names of the variables in that level's constructor.
  std::set<std::string> declared_by(size_t level) const {
    std::set<std::string> names;
    for (const Part& part : parts_)
      if (part.level == level) names.insert(part.effects.declared.begin(), part.effects.declared.end());
    return names;
  }

  /// Handles `remove(member);`, which drops the parts that create the member. The constructor creates it again later.
  bool is_remove(const clang::Stmt& stmt) {
    const auto* call = llvm::dyn_cast<clang::CallExpr>(&stmt);
    const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
    if (!callee || callee->getQualifiedNameAsString() != "modular::remove") return false;
    const std::string field = own_field(call->getArg(0));
    const auto sets = [&](const Part& part) {
      return part.kind != Part::Kind::implicit &&
             (part.field == field || (part.field.empty() && part.registered == field) ||
              changes_only(part.effects, [&](const std::string& one) { return one == field; }));
    };
    if (std::erase_if(parts_, sets) == 0 && !context_.dropped.count(field))
      family_.specs().reject(span(stmt.getSourceRange()), "the inherited constructor does not create '" + field + "'",
                             "remove this statement", {}, remove_with_line(parsed_, span(stmt.getSourceRange())));
    return true;
  }

  /// The intended value is ambiguous: the redeclaration's, or the one that the body assigns after it.
  void reject_overwritten(const Part& part) {
    const Symbol& redeclares = *entity_.levels[context_.dropped.at(part.field)].symbol;
    for (const clang::FieldDecl* field : redeclares.record->fields())
      if (field->getName() == part.field)
        family_.specs().reject(
            parsed_.token(manager_, field->getLocation()),
            "'" + part.field + "' is initialized here, but the base's constructor assigns it another value",
            "declare it without an initializer, and assign it in this class's constructor",
            {{Diagnostic::Severity::note, part.where, "it is assigned here", "", {}}});
  }

  void reject_order(const Part& part) {
    family_.specs().reject(
        part.where,
        "'" + part.registered +
            "' cannot be registered again at the position of the inherited registration: code in between reads it",
        "write remove(" + part.registered +
            "); before this statement, or redefine the constructor without calling the base's",
        {}, write_before(part.where, "remove(" + part.registered + ");"));
  }

  struct Skipped {
    std::string name;
    const clang::FieldDecl* field;
    SourceSpan where;
  };

  const ConstructorContext& context_;
  std::vector<Part> parts_;                           // in C++'s order of execution
  Fragment tail_;                                     // comments before the closing brace
  size_t first_ = 0;                                  // level whose constructor is generated
  std::set<std::string> given_;                       // new names of renamed variables
  std::set<std::string> parameters_;                  // parameter names of the constructor that is generated
  std::map<size_t, std::vector<Replacement>> calls_;  // super calls in each level's code
  std::map<size_t, std::vector<BoundArguments::Variable>> variables_;
  std::set<std::string> initialized_;  // fields whose inherited initialization a redeclaration replaces
  std::vector<Skipped> skipped_;       // fields whose class's constructor does not run
  Family& family_;
  Entity& entity_;
  const Parsed& parsed_;
  const clang::SourceManager& manager_;
  const MethodsMeant meant_;
};

}  // namespace

Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice) {
  return ConstructorInliner(context).make(index, constructor, slice);
}

}  // namespace modgen
