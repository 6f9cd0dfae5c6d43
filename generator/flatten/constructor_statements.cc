// Statements in the body of an inlined constructor, and which inherited parts they replace.
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/constructor.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/operands.h"
#include "generator/resolve/registrations.h"
#include "generator/source/fixes.h"
#include "generator/source/slices.h"

namespace modgen {

bool ConstructorInliner::always_holds(const clang::IfStmt& condition, const Substitution& arguments) {
  const auto* named = llvm::dyn_cast<clang::DeclRefExpr>(condition.getCond()->IgnoreParenImpCasts());
  const auto argument = arguments.texts.find(named ? llvm::dyn_cast<clang::ParmVarDecl>(named->getDecl()) : nullptr);
  return argument != arguments.texts.end() && argument->second.text() == "true" && !condition.hasElseStorage() &&
         !condition.hasInitStorage() && !llvm::isa<clang::CompoundStmt>(condition.getThen());
}

void ConstructorInliner::check_returns(const std::vector<Part>& statements) {
  for (auto part = statements.begin(); part != statements.end(); ++part) {
    if (!part->effects.returns) continue;
    const auto later = std::find_if(part, statements.end(), [&](const Part& one) { return one.level < part->level; });
    if (later == statements.end()) continue;
    family_.specs().reject(later->where, "this would not run where the base's constructor returns early",
                           "let the base's constructor run to its end, or redefine it here without calling it",
                           {{Diagnostic::Severity::note, part->where, "it returns here", "", {}}});
    return;
  }
}

void ConstructorInliner::check_guards(const std::vector<Part>& statements) {
  for (auto guard = statements.begin(); guard != statements.end(); ++guard) {
    if (!guard->is_guard) continue;
    const auto later = std::find_if(guard, statements.end(), [&](const Part& one) { return one.level < guard->level; });
    if (later == statements.end()) continue;
    return family_.specs().reject(later->where, "this would run before the end of a guard in the base's constructor",
                                  "put the guard, and what it is for, in a block there",
                                  {{Diagnostic::Severity::note, guard->where, "the guard", "", {}}});
  }
}

void ConstructorInliner::add_variable(const clang::ParmVarDecl& parameter, const Fragment& argument, size_t level,
                                      const Substitution& arguments) {
  Part part;
  part.level = level;
  part.where = span(parameter.getSourceRange());
  if (const auto given = arguments_.find(&parameter); given != arguments_.end())
    part.effects = find_side_effects(given->second, meant_, arguments_);
  part.effects.written_variables.insert(&parameter);
  part.effects.declared.insert(parameter.getNameAsString());
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

void ConstructorInliner::add_statement(const clang::Stmt& stmt, SourceSpan slice, size_t level,
                                       const Substitution& arguments, SourceSpan comment) {
  const SourceSpan above = comment.empty() ? leading_comment(family_.file_text(slice.file), slice) : comment;
  if (const auto* condition = llvm::dyn_cast<clang::IfStmt>(&stmt); condition && always_holds(*condition, arguments)) {
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
  part.is_guard = !llvm::isa<clang::CompoundStmt>(stmt) && leaves_a_guard(stmt);  // a block ends its own
  if (is_dropped(part.field, level)) {
    const bool is_creation = !assignment.decl->hasInClassInitializer() && initialized_.insert(part.field).second;
    if (!is_creation && part.registered.empty() && !entity_.removed.count(part.field)) return reject_overwritten(part);
    part.effects = find_side_effects(&stmt, meant_, arguments_);
    reject_lost(part);
    return;
  }
  // A statement that only serves a removed member goes with it.
  if (!part.registered.empty() && is_dropped(part.registered, level) && part.field.empty()) return;
  part.effects = find_side_effects(&stmt, meant_, arguments_);
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

ConstructorInliner::Assignment ConstructorInliner::assignment_in(const clang::Stmt& statement) {
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

bool ConstructorInliner::replace_inherited_part(const Part& part, const Assignment& assignment, SourceSpan comment,
                                                size_t level, const Substitution& arguments) {
  const auto inherited = std::find_if(parts_.rbegin(), parts_.rend(), [&](const Part& one) {
    return (!part.field.empty() && one.field == part.field) ||
           (part.field.empty() && !part.registered.empty() && one.registered == part.registered);
  });
  if (inherited == parts_.rend() || inherited->level <= level || inherited->kind == Part::Kind::implicit) return false;
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

bool ConstructorInliner::names_no_variable(const SideEffects& value) {
  return std::all_of(value.read_variables.begin(), value.read_variables.end(), [&](const clang::VarDecl* variable) {
    return llvm::isa<clang::ParmVarDecl>(variable) || value.declared.count(variable->getNameAsString());
  });
}

bool ConstructorInliner::replaces_value(const Part& inherited, const Part& part, const Assignment& assignment,
                                        size_t level) const {
  if (!assignment.value || part.field.empty()) return false;
  SideEffects lost = inherited.effects;
  lost.writes.erase(part.field);
  const clang::QualType type = assignment.decl->getType();
  const clang::Expr* spelled = assignment.value->IgnoreUnlessSpelledInSource();
  return lost.is_pure() && !lost.throws && !has_own_assignment(type) && !llvm::isa<clang::InitListExpr>(spelled) &&
         (type->isArithmeticType() || type->isEnumeralType() ||
          type_text(spelled->getType(), level) == type_text(type, level));
}

bool ConstructorInliner::is_readable_at(const SideEffects& value, size_t field_rank) const {
  return !value.reads_everything && std::all_of(value.reads.begin(), value.reads.end(), [&](const std::string& field) {
    Part read;
    read.kind = Part::Kind::initializer;
    read.field = field;
    return rank(read) < field_rank;
  });
}

std::set<std::string> ConstructorInliner::declared_by(size_t level) const {
  std::set<std::string> names;
  for (const Part& part : parts_)
    if (part.level == level) names.insert(part.effects.declared.begin(), part.effects.declared.end());
  return names;
}

bool ConstructorInliner::is_remove(const clang::Stmt& stmt) {
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

void ConstructorInliner::reject_overwritten(const Part& part) {
  const Symbol& redeclares = *entity_.levels[context_.dropped.at(part.field)].symbol;
  for (const clang::FieldDecl* field : redeclares.record->fields())
    if (field->getName() == part.field)
      family_.specs().reject(
          parsed_.token(manager_, field->getLocation()),
          "'" + part.field + "' is initialized here, but the base's constructor assigns it another value",
          "declare it without an initializer, and assign it in this class's constructor",
          {{Diagnostic::Severity::note, part.where, "it is assigned here", "", {}}});
}

void ConstructorInliner::reject_lost(const Part& part) {
  const bool changes =
      part.effects.writes_everything || std::ranges::any_of(part.effects.writes, [&](const std::string& name) {
        return name != part.field && !name.starts_with("<") && !is_dropped(name, part.level);
      });
  if (!changes) return;
  family_.specs().reject(part.where,
                         "this initializes '" + part.field +
                             "', which a derived class redeclares or removes, and changes something else, which would "
                             "be lost",
                         "do this in a statement of its own");
}

void ConstructorInliner::reject_order(const Part& part) {
  family_.specs().reject(
      part.where,
      "'" + part.registered +
          "' cannot be registered again at the position of the inherited registration: code in between reads it",
      "write remove(" + part.registered +
          "); before this statement, or redefine the constructor without calling the base's",
      {}, write_before(part.where, "remove(" + part.registered + ");"));
}

}  // namespace modgen
