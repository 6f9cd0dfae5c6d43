// Inlines the base's constructor into the derived one, so that it reads as if written for this class. Parts keep C++'s
// order of execution wherever one of them reads or modifies state that another modifies.
#include "generator/flatten/constructor.h"

#include <clang/AST/Attr.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/implicit_members.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/operands.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {

Fragment ConstructorInliner::make(size_t level, const clang::CXXConstructorDecl& declared, SourceSpan slice,
                                  std::optional<size_t> implied_by) {
  if (implied_by && declared.getNumParams() > 0) return make_implicit(*implied_by, level, slice);
  const auto& constructor = llvm::cast<clang::CXXConstructorDecl>(Specs::defined(declared));
  // Nothing to inline: the text stays as it is.
  const bool in_class = &constructor == &declared;
  const bool is_root = level + 1 == entity_.levels.size();
  const bool stays = is_root && context_.dropped.empty() && in_class;
  const bool has_body = constructor.getBody() && !constructor.isDefaulted();  // Clang synthesizes one if it is used
  if (level > 0 && has_body) check_static_variables(constructor, entity_.levels.front().symbol->where);
  if ((stays && !initializes_below(level)) || (!has_body && (is_root || !constructor.isDefaulted()))) {
    if (constructor.isDefaultConstructor() && !constructor.isDeleted()) context_.deferred.emplace_back();
    return render(slice, level, {}, dropped_specifiers(level, declared, slice, implied_by.has_value()));
  }
  first_ = level;
  for (const clang::ParmVarDecl* parameter : constructor.parameters())
    if (parameter->getDeclName()) parameters_.insert(parameter->getNameAsString());
  if (has_body)
    inline_constructor(level, constructor, {});
  else
    run_base(default_base_call(family_, entity_, level, constructor), level, {}, {},
             entity_.levels[level].symbol->where);
  add_implicit_between(0, has_body ? level : level + 1);
  std::vector<Replacement> replacements = dropped_specifiers(level, declared, slice, implied_by.has_value());
  const Arranged parts = arrange_parts();
  if (stays && parts.deferred.empty()) return render(slice, level, {}, std::move(replacements));

  const uint32_t end = in_class && has_body ? head_end(constructor) : parameters_end(declared);
  const Fragment text = code_text(parts);
  for (Replacement& one : unused_parameters(declared, text.text())) replacements.push_back(std::move(one));
  Fragment result = render({slice.file, slice.begin, end}, level, {}, std::move(replacements)).trimmed();
  result.append(text);
  return result;
}

Fragment ConstructorInliner::make_implicit(size_t level, size_t written, SourceSpan slice) {
  const clang::CXXRecordDecl& record = *entity_.levels[level].symbol->record;
  const auto* constructor = llvm::cast<clang::CXXConstructorDecl>(
      find_special_member(family_.specs(), record, SpecialMember::default_constructor));
  first_ = level;
  run_base(default_base_call(family_, entity_, level, *constructor), level, {}, {},
           entity_.levels[level].symbol->where);
  add_implicit_between(0, level + 1);
  const Arranged parts = arrange_parts();
  Fragment result = comment_above(slice, written, {})();
  if (!result.empty()) result.add(std::string("\n"));
  result.append(render(parsed_.token(manager_, record.getLocation()), level, {}));
  result.add(std::string("()"));
  result.append(code_text(parts));
  return result;
}

Arranged ConstructorInliner::arrange_parts() {
  check_skipped_fields();
  Arranged parts = arranged(std::move(parts_), [this](const Part& part) { return rank(part); });
  for (const Misplaced& misplaced : parts.misplaced) reject_misplaced(misplaced);
  check_returns(parts.statements);
  check_guards(parts.statements);
  context_.deferred.push_back(parts.deferred);
  return parts;
}

Fragment ConstructorInliner::code_text(const Arranged& parts) {
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
  return text;
}

std::vector<Replacement> ConstructorInliner::dropped_specifiers(size_t level, const clang::CXXConstructorDecl& declared,
                                                                SourceSpan slice, bool is_implied) {
  std::vector<Replacement> dropped;
  const std::string& text = family_.file_text(slice.file);
  const Tokens tokens(text);
  const size_t name = tokens.first_from(parsed_.token(manager_, declared.getLocation()).begin);
  for (size_t at = tokens.first_from(slice.begin); is_implied && at < name; ++at) {
    if (tokens.word(at) != "explicit") continue;
    const size_t end = tokens.word(at + 1) == "(" ? tokens.closing(at + 1) + 1 : at + 1;
    dropped.push_back({{slice.file, tokens.begin(at), tokens.begin(end)}, Fragment()});
  }
  if (!drops_noexcept(level, declared)) return dropped;
  SourceSpan where = span(declared.getExceptionSpecSourceRange());
  while (where.begin > 0 && text[where.begin - 1] == ' ') --where.begin;
  dropped.push_back({where, Fragment()});
  return dropped;
}

bool ConstructorInliner::drops_noexcept(size_t level, const clang::CXXConstructorDecl& declared) {
  const auto is_safe = [&](const Level& one) {
    return initializes_without_throwing(family_.specs(), *one.symbol->record);
  };
  const auto end = entity_.levels.begin() + static_cast<long>(level);
  if (!cannot_throw(declared) || declared.isCopyOrMoveConstructor() ||
      declared.getExceptionSpecSourceRange().isInvalid() || std::all_of(entity_.levels.begin(), end, is_safe))
    return false;
  // The constructor itself ends the program where it throws.
  const auto& constructor = llvm::cast<clang::CXXConstructorDecl>(Specs::defined(declared));
  SideEffects effects = find_initializer_effects(constructor, meant_);
  if (constructor.getBody()) add(effects, find_side_effects(constructor.getBody(), meant_));
  for (const Part& part : parts_)
    if (part.level >= level) add(effects, part.effects);
  for (auto one = end; one != entity_.levels.end(); ++one)
    for (const clang::FieldDecl* field : one->symbol->record->fields())
      add(effects, find_field_effects(*field, meant_));
  if (!effects.throws && !effects.may_throw) return true;
  reject_noexcept(declared, entity_.levels.front().symbol->where);
  return false;
}

void ConstructorInliner::reject_noexcept(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const {
  family_.specs().reject(cause,
                         "the base's constructor is noexcept and may throw, which would not end the program here",
                         "remove noexcept there",
                         {{Diagnostic::Severity::note, span(constructor.getSourceRange()), "in the base", "", {}}});
}

std::vector<Replacement> ConstructorInliner::unused_parameters(const clang::CXXConstructorDecl& constructor,
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

Fragment ConstructorInliner::render(SourceSpan where, size_t level, const Substitution& arguments,
                                    std::vector<Replacement> replacements) {
  return family_.render(where, entity_.levels[level], entity_, arguments, std::move(replacements));
}

std::string ConstructorInliner::type_text(clang::QualType type, size_t level) const {
  return family_.type_text(type, entity_.levels[level], entity_);
}

size_t ConstructorInliner::rank(const Part& part) const {
  if (part.kind == Part::Kind::library_base) return 0;
  const auto found = std::find(context_.field_order.begin(), context_.field_order.end(), part.field);
  return 1 + static_cast<size_t>(found - context_.field_order.begin());
}

bool ConstructorInliner::initializes_below(size_t level) const {
  const auto initializes = [&](const Level& one) {
    return std::any_of(one.symbol->record->field_begin(), one.symbol->record->field_end(),
                       [&](const clang::FieldDecl* field) {
                         return field->hasInClassInitializer() || find_field_effects(*field, meant_).depends_on_order();
                       });
  };
  return std::any_of(entity_.levels.begin(), entity_.levels.begin() + static_cast<long>(level), initializes);
}

uint32_t ConstructorInliner::parameters_end(const clang::CXXConstructorDecl& constructor) const {
  const auto type = constructor.getFunctionTypeLoc();
  return type && constructor.isExplicitlyDefaulted() ? parsed_.token(manager_, type.getRParenLoc()).end
                                                     : span(constructor.getSourceRange()).end;
}

uint32_t ConstructorInliner::head_end(const clang::CXXConstructorDecl& constructor) const {
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

void ConstructorInliner::inline_constructor(size_t level, const clang::CXXConstructorDecl& constructor, Scope scope) {
  const SourceSpan body = span(constructor.getBody()->getSourceRange());
  if (level > first_) enter_scope(level, constructor, scope);
  const Substitution& arguments = scope.substitution;
  calls_[level] = super_calls(family_, entity_, level, constructor, arguments, context_.supers);
  for (Replacement& moved : moves_[level]) calls_[level].push_back(std::move(moved));

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
  for (size_t index = 0; index < begin; ++index) {
    add_initializer(*written[index], to_part_slice(written[index]), level, arguments);
    check_read_before_the_base();
  }
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

void ConstructorInliner::check_read_before_the_base() {
  if (parts_.empty()) return;
  const Part& last = parts_.back();
  for (const std::string& name : last.effects.reads) {
    const auto& fields = context_.field_order;
    const bool is_set = std::any_of(parts_.begin(), parts_.end(), [&](const Part& one) { return one.field == name; });
    if (!is_set && std::find(fields.begin(), fields.end(), name) != fields.end())
      family_.specs().reject(last.where,
                             "'" + last.field + "' is initialized before the base, as written here, and reads '" +
                                 name + "', which is not initialized then",
                             "write its initializer after the base's");
  }
}

bool ConstructorInliner::is_own_base(const clang::CXXCtorInitializer& init) const {
  const auto* record = init.isBaseInitializer() ? init.getBaseClass()->getAsCXXRecordDecl() : nullptr;
  return record && family_.specs().symbol(record);
}

std::set<std::string> ConstructorInliner::split_words(const clang::CXXConstructorDecl& constructor) const {
  return words_in(family_, span(constructor.getSourceRange()));
}

void ConstructorInliner::enter_scope(size_t level, const clang::CXXConstructorDecl& constructor, Scope& scope) {
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
  struct Variables : SyntaxVisitor {
    std::vector<const clang::NamedDecl*> found;
    bool VisitVarDecl(clang::VarDecl* variable) override {
      found.push_back(variable);
      return true;
    }
    bool VisitBindingDecl(clang::BindingDecl* binding) override {
      found.push_back(binding);
      return true;
    }
  } variables;
  variables.visit(constructor.getBody());
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

void ConstructorInliner::rename(const clang::NamedDecl& variable, const std::string& name,
                                Substitution& substitution) const {
  Fragment text;
  text.add(name, parsed_.token(manager_, variable.getLocation()));
  substitution.texts[&variable] = text;
}

bool ConstructorInliner::check_static_variables(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const {
  const clang::Decl* single = find_single(*constructor.getBody());
  if (!single) return true;
  family_.specs().reject(
      cause,
      "the base's constructor has a static variable or a label, of which each class that derives would have its own",
      "declare the variable outside of the constructor",
      {{Diagnostic::Severity::note, parsed_.token(manager_, single->getLocation()), "in the base", "", {}}});
  return false;
}

bool ConstructorInliner::can_be_inlined(const clang::CXXConstructorDecl& constructor, SourceSpan cause) const {
  if (!check_static_variables(constructor, cause)) return false;
  SideEffects effects = find_initializer_effects(constructor, meant_);
  add(effects, find_side_effects(constructor.getBody(), meant_));
  if (cannot_throw(constructor) && (effects.throws || effects.may_throw)) {
    reject_noexcept(constructor, cause);
    return false;
  }
  if (!constructor.isTemplateInstantiation()) return true;
  family_.specs().reject(cause, "the base's constructor is a template, which modgen does not inline",
                         "name the types of its parameters there",
                         {{Diagnostic::Severity::note, span(constructor.getSourceRange()), "in the base", "", {}}});
  return false;
}

bool ConstructorInliner::run_base(const clang::CXXCtorInitializer& init, size_t level, const Scope& outer,
                                  std::set<std::string> words) {
  const std::optional<BaseCall> call = base_call(family_, entity_, level, init);
  if (!call) return false;
  for (const size_t skipped : call->skipped) check_skipped(skipped, init);
  run_base(*call, level, outer, std::move(words),
           init.isWritten() ? span(init.getSourceRange()) : entity_.levels[level].symbol->where);
  return true;
}

void ConstructorInliner::run_base(const BaseCall& call, size_t level, const Scope& outer, std::set<std::string> words,
                                  SourceSpan cause) {
  if (!call.constructor || !can_be_inlined(*call.constructor, cause)) return;
  words.insert(outer.words.begin(), outer.words.end());
  for (unsigned index = 0; index < call.constructor->getNumParams(); ++index) {
    const clang::ParmVarDecl* parameter = call.constructor->getParamDecl(index);
    const clang::Expr* given = index < call.arguments.size() ? call.arguments[index] : nullptr;
    arguments_[parameter] = given && !llvm::isa<clang::CXXDefaultArgExpr>(given) ? given : parameter->getDefaultArg();
  }
  const size_t begin = parts_.size();
  BoundArguments bound = base_arguments(family_, entity_, call, level, outer.substitution);
  variables_[call.level] = std::move(bound.variables);
  moves_[call.level] = std::move(bound.moves);
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

Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice, std::optional<size_t> implied_by) {
  return ConstructorInliner(context).make(index, constructor, slice, implied_by);
}

}  // namespace modgen
