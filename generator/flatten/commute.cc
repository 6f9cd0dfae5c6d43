// Whether two pieces of code may swap.
#include <clang/AST/Decl.h>
#include <clang/AST/Expr.h>

#include <algorithm>

#include "generator/flatten/side_effects.h"

namespace modgen {
namespace {

bool overlap(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::any_of(one.begin(), one.end(),
                     [&](const std::string& name) { return name != kRegistry && other.count(name) != 0; });
}

bool overlap(const std::set<const clang::VarDecl*>& one, const std::set<const clang::VarDecl*>& other) {
  return std::any_of(one.begin(), one.end(), [&](const clang::VarDecl* name) { return other.count(name) != 0; });
}

/// Whether what the code modifies is still seen if the object is never finished.
bool outlives(const SideEffects& effects) {
  return effects.writes_everything || std::any_of(effects.writes.begin(), effects.writes.end(), [](const auto& name) {
           return name == kRandom || name.starts_with("::");
         });
}

bool names_variables(const SideEffects& effects) {
  const auto is_variable = [](const std::string& name) { return name.starts_with("::"); };
  return std::any_of(effects.reads.begin(), effects.reads.end(), is_variable) ||
         std::any_of(effects.writes.begin(), effects.writes.end(), is_variable);
}

/// Whether `other` reads or modifies state that `one` modifies, or would not run, or run in vain, where `one` throws.
bool disturbs(const SideEffects& one, const SideEffects& other) {
  const bool touches =
      !other.reads.empty() || !other.writes.empty() || other.reads_everything || other.writes_everything;
  if (one.writes_everything && touches) return true;
  if (one.throws && (other.throws || other.traps || other.acts_at_its_end || outlives(other))) return true;
  if (one.counts_elements && outlives(other)) return true;
  if (one.checks && other.may_throw) return true;
  if (one.traps && outlives(other)) return true;
  if (!one.held.empty() && names_variables(other)) return true;
  if (!one.held.empty() && !other.held.empty() && disturbs(find_held_effects(one.held), find_held_effects(other.held)))
    return true;
  const bool changes = one.writes.size() > one.writes.count(kRegistry);
  if (changes && (other.reads_everything || other.writes_everything)) return true;
  return overlap(one.writes, other.reads) || overlap(one.writes, other.writes) ||
         overlap(one.written_variables, other.read_variables) ||
         overlap(one.written_variables, other.written_variables);
}

/// Adds what `other` reads, how it may end, and the code that libraries run for it.
void add_reads_and_ends(SideEffects& effects, const SideEffects& other) {
  effects.reads.insert(other.reads.begin(), other.reads.end());
  effects.reads_everything |= other.reads_everything;
  effects.throws |= other.throws;
  effects.checks |= other.checks;
  effects.may_throw |= other.may_throw;
  effects.traps |= other.traps;
  effects.acts_at_its_end |= other.acts_at_its_end;
  effects.counts_elements |= other.counts_elements;
  effects.held.insert(other.held.begin(), other.held.end());
}

}  // namespace

SideEffects find_side_effects(const clang::Stmt* code, const MethodsMeant& meant, const Arguments& arguments) {
  SideEffects effects = find_side_effects(code, meant);
  std::vector<const clang::VarDecl*> open(effects.read_variables.begin(), effects.read_variables.end());
  open.insert(open.end(), effects.written_variables.begin(), effects.written_variables.end());
  while (!open.empty()) {
    const clang::VarDecl* parameter = open.back();
    open.pop_back();
    const auto given = arguments.find(parameter);
    if (given == arguments.end()) continue;
    const SideEffects argument = find_side_effects(given->second, meant);
    const bool is_changed = effects.written_variables.count(parameter) && parameter->getType()->isReferenceType();
    for (const clang::VarDecl* one : argument.read_variables) {
      const bool is_new = effects.read_variables.insert(one).second;
      const bool is_newly_changed = is_changed && effects.written_variables.insert(one).second;
      if (is_new || is_newly_changed) open.push_back(one);
    }
    add_reads_and_ends(effects, argument);
    if (is_changed) effects.writes.insert(argument.reads.begin(), argument.reads.end());
  }
  return effects;
}

SideEffects find_initializer_effects(const clang::CXXConstructorDecl& constructor, const MethodsMeant& meant,
                                     const Arguments& arguments) {
  SideEffects effects;
  for (const clang::CXXCtorInitializer* init : constructor.inits())
    if (init->getInit()) add(effects, find_side_effects(init->getInit(), meant, arguments));
  return effects;
}

bool commute(const SideEffects& one, const SideEffects& other) {
  return !disturbs(one, other) && !disturbs(other, one);
}

bool changes_only(const SideEffects& effects, const std::function<bool(const std::string&)>& chosen) {
  return std::any_of(effects.writes.begin(), effects.writes.end(), chosen) && !effects.writes_everything &&
         !effects.returns &&
         std::all_of(effects.writes.begin(), effects.writes.end(),
                     [&](const std::string& name) { return name == kShared || chosen(name); }) &&
         std::all_of(effects.written_variables.begin(), effects.written_variables.end(),
                     [&](const clang::VarDecl* one) { return effects.declared.count(one->getNameAsString()) != 0; });
}

void add(SideEffects& effects, const SideEffects& other) {
  add_reads_and_ends(effects, other);
  effects.writes.insert(other.writes.begin(), other.writes.end());
  effects.read_variables.insert(other.read_variables.begin(), other.read_variables.end());
  effects.written_variables.insert(other.written_variables.begin(), other.written_variables.end());
  effects.declared.insert(other.declared.begin(), other.declared.end());
  effects.writes_everything |= other.writes_everything;
  effects.returns |= other.returns;
  effects.captures |= other.captures;
}

void leave(SideEffects& effects) {
  effects.read_variables.clear();
  effects.written_variables.clear();
  effects.declared.clear();
  effects.captures = effects.returns = false;
}

}  // namespace modgen
