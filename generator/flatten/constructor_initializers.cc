// Initializers of fields in an inlined constructor, and the fields that no constructor sets.
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/constructor.h"
#include "generator/flatten/implicit_members.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/operands.h"
#include "generator/resolve/registrations.h"
#include "generator/source/slices.h"

namespace modgen {

bool ConstructorInliner::is_dropped(const std::string& field, size_t level) const {
  const auto dropped = context_.dropped.find(field);
  return dropped != context_.dropped.end() && dropped->second < level;
}

void ConstructorInliner::add_initializer(const clang::CXXCtorInitializer& init, SourceSpan slice, size_t level,
                                         const Substitution& arguments) {
  const SourceSpan where = span(init.getSourceRange());
  Part part;
  part.kind = init.isBaseInitializer() ? Part::Kind::library_base : Part::Kind::initializer;
  part.level = level;
  part.where = where;
  if (init.isAnyMemberInitializer()) part.field = init.getAnyMember()->getNameAsString();
  part.registered = registered_name(init.getInit());
  part.effects = find_side_effects(init.getInit(), meant_, arguments_);
  if (is_dropped(part.field, level)) {
    reject_lost(part);
    return void(initialized_.insert(part.field));
  }
  if (!part.field.empty()) part.effects.writes.insert(part.field);
  part.comment = comments_at(slice, where, level, arguments);
  part.text = [this, where, level, arguments] { return render(where, level, arguments, calls_[level]); };
  if (init.isAnyMemberInitializer()) {
    part.effects.acts_at_its_end = acts_at_its_end(init.getAnyMember()->getType());
    make_assignable(*init.getAnyMember(), *init.getInit(), level, arguments, part);
  }
  erase_inherited(part);
  parts_.push_back(std::move(part));
}

void ConstructorInliner::erase_inherited(const Part& part) {
  std::erase_if(parts_, [&](const Part& one) {
    const bool initializes = one.kind == Part::Kind::initializer || one.kind == Part::Kind::implicit;
    return initializes && !part.field.empty() && one.field == part.field;
  });
}

void ConstructorInliner::add_implicit_between(size_t first, size_t end) {
  for (size_t level = end; level-- > first;)
    for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) add_implicit(*field, level);
}

void ConstructorInliner::add_implicit(const clang::FieldDecl& field, size_t level) {
  const std::string name = field.getNameAsString();
  const bool is_known = std::any_of(parts_.begin(), parts_.end(), [&](const Part& one) { return one.field == name; });
  // A redeclared field stays at the inherited position, with its own initializer.
  const bool is_inherited = std::any_of(entity_.levels.begin() + static_cast<long>(level) + 1, entity_.levels.end(),
                                        [&](const Level& one) { return one.symbol->declares_field(name); });
  if (is_dropped(name, level) || is_known || is_inherited) return;
  Part part;
  part.kind = Part::Kind::implicit;
  part.field = name;
  part.level = level;
  part.where = parsed_.token(manager_, field.getLocation());
  part.effects = find_field_effects(field, meant_);
  if (!field.hasInClassInitializer()) {
    part.is_made = true;
    if (part.effects.depends_on_order()) parts_.push_back(std::move(part));
    return;
  }
  part.effects.writes.insert(name);
  const clang::Expr& value = *field.getInClassInitializer();
  part.words = words_in(family_, span(value.getSourceRange()));
  Substitution in_body;
  in_body.hidden = parameters_;
  if (field.isBitField())
    part.obstacle = "assign it in the constructor's body";
  else
    make_assignable(field, value, level, in_body, part);
  parts_.push_back(std::move(part));
}

bool ConstructorInliner::is_made_quietly(clang::QualType type) const {
  const auto* record = type->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  return !record || (find_special_member(family_.specs(), *record, SpecialMember::default_constructor) &&
                     !find_default_effects(type).depends_on_order());
}

void ConstructorInliner::make_assignable(const clang::FieldDecl& field, const clang::Expr& initializer, size_t level,
                                         const Substitution& arguments, Part& part) {
  const clang::Expr* value = initializer.IgnoreImplicit();
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
  else if (!is_made_quietly(field.getType()))
    part.obstacle = "hold it in a std::optional, and assign it in the constructor's body";
  else if (has_own_assignment(field.getType()))
    part.obstacle = "assign it in the constructor's body, if its own operator= does what initialization does";
  if (!part.obstacle.empty()) return;
  part.assignment = [this, name = part.field, value = span(value->getSourceRange()), level, arguments] {
    const std::string member = family_.member_name(name, *entity_.levels[level].symbol, entity_.levels[level], entity_);
    Fragment text((parameters_.count(member) ? "this->" : "") + member + " = ");
    text.append(render(value, level, arguments, calls_[level]));
    text.add(std::string(";"));
    return text;
  };
}

void ConstructorInliner::reject_misplaced(const Misplaced& misplaced) {
  const bool after_body = misplaced.other.kind == Part::Kind::statement;
  const std::string name = "'" + misplaced.part.field + "'";
  std::string message,
      advice = misplaced.part.obstacle.empty() ? "assign it in the constructor's body" : misplaced.part.obstacle;
  if (!after_body) {
    message =
        name + " would be initialized before '" + misplaced.other.field + "', and one of them depends on the other";
  } else if (misplaced.part.is_made) {
    message =
        name + " would be made before the body of the base's constructor runs, and one of them depends on the other";
    advice = "hold it in a std::optional, and assign it in the constructor's body";
  } else if (misplaced.other.effects.reads.contains(misplaced.part.field)) {
    message = name + " is initialized after the body of the base's constructor, which reads it by a virtual method";
    advice = "let the base's constructor not call that method, or make it a static constant";
  } else {
    message =
        name +
        " is initialized from state that the body of the base's constructor sets, and cannot be assigned after it";
  }
  family_.specs().reject(misplaced.part.where, message, advice,
                         {{Diagnostic::Severity::note, misplaced.other.where, "this comes first", "", {}}});
}

Later ConstructorInliner::comments_at(SourceSpan slice, SourceSpan core, size_t level, const Substitution& arguments) {
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

Later ConstructorInliner::comment_above(SourceSpan slice, size_t level, const Substitution& arguments) {
  const SourceSpan comment = leading_comment(family_.file_text(slice.file), slice);
  return [this, comment, level, arguments] {
    return comment.begin < comment.end ? render(comment, level, arguments) : Fragment();
  };
}

void ConstructorInliner::check_skipped(size_t level, const clang::CXXCtorInitializer& init) {
  for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) {
    const std::string name = field->getNameAsString();
    const bool stays =
        std::find(context_.field_order.begin(), context_.field_order.end(), name) != context_.field_order.end();
    if (stays && !field->hasInClassInitializer() && !context_.dropped.count(name))
      skipped_.push_back({name, field, span(init.getSourceRange())});
  }
}

void ConstructorInliner::check_skipped_fields() {
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

}  // namespace modgen
