#include "generator/flatten/family.h"

#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "generator/flatten/outside.h"
#include "generator/flatten/overloads.h"
#include "generator/flatten/shared_variables.h"
#include "generator/flatten/side_effects.h"
#include "generator/resolve/specs.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// A class that derives from another class of its own family keeps that base, while members of that type get the
/// deriving family's replacement: the two must be the same class. Entries are never members, so they do not count.
/// `meaning` maps a symbol to its meaning in code of a level.
void check_bases(const Specs& specs, const Entity& entity,
                 const std::function<const Symbol*(const Symbol&, const Level&)>& meaning) {
  for (size_t index = 0; index + 1 < entity.levels.size(); ++index) {
    const Level& level = entity.levels[index];
    if (level.under > 0) continue;
    const Symbol& base = *entity.levels[index + 1].symbol;
    if (base.spec != level.symbol->spec) continue;  // chosen explicitly by the spec's author
    if (specs.is_entry(base)) continue;
    const Symbol* const covers = meaning(base, level);
    const Symbol* meant = covers;
    while (meant->is_alias()) meant = meant->base;
    if (std::any_of(entity.levels.begin(), entity.levels.end(), [&](const Level& one) { return one.symbol == meant; }))
      continue;
    const std::string impl = covers->name + (covers->kind == Symbol::Kind::module_class ? "Impl" : "");
    specs.reject(entity.cause,
                 "'" + entity.name + "' would derive from '" + base.name + "' of family '" + base.spec->name +
                     "', which this family replaces with '" + covers->name + "'",
                 "write '" + entity.name + "' explicitly, deriving from '" + impl + "', with the members that '" +
                     level.symbol->name + "' adds; or make '" + level.symbol->name + "' have '" + base.name +
                     "' as a member",
                 {{Diagnostic::Severity::note, level.symbol->where, "this derives from it", "", {}},
                  {Diagnostic::Severity::note, covers->where, "this replaces it", "", {}}});
  }
}

/// Whether it is a variable that may change, or a function that has one.
bool has_state(const Symbol& symbol) {
  const auto changes = [](const clang::VarDecl& variable) { return !is_constant(variable); };
  return std::ranges::any_of(symbol.decls, [&](const clang::NamedDecl* decl) {
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl)) return changes(*variable);
    const clang::FunctionDecl* function = decl->getAsFunction();
    return function && find_static_variable(Specs::defined(*function).getBody(), changes);
  });
}

}  // namespace

Family::Family(const Specs& specs, const Spec& spec) : specs_(specs), spec_(spec) {
  are_texts_read_ =
      std::ranges::any_of(specs.all(), [&](const auto& one) { return one->texts.are_read && spec.sees(*one); });
  name_macros();
}

// ---- Meanings of names ----------------------------------------------------------------------------------------------

std::string Family::get_prefix(const Spec& family, const std::vector<Step>& outward) const {
  std::string prefix = family.prefix;
  const Spec* inner = &family;
  for (const Step& step : outward) {
    // LlavaVision in a family that renames Llava to Other: OtherVision.
    prefix = step.prefix + prefix.substr(std::min(prefix.size(), inner->prefix.size()));
    inner = step.family;
  }
  return prefix;
}

Family::Meaning Family::meaning(const Symbol& target, const Level& level) const {
  std::vector<Step> path = level.outward;
  if (target.spec != level.symbol->spec)
    path.insert(path.begin(), {level.symbol->spec, prefix_given(*level.symbol, *target.spec)});
  Meaning result{&target, path};
  for (size_t index = 0; index < path.size(); ++index) {
    const auto first = path.end() - static_cast<long>(result.outward.size()),
               here = path.begin() + static_cast<long>(index);
    if (const Symbol* replacement =
            covering(*path[index].family, *result.symbol, get_prefix(*result.symbol->spec, {first, here + 1})))
      result = {replacement, {here + 1, path.end()}};
  }
  return result;
}

Entity* Family::resolve(const Symbol& target, const Level& level) {
  Meaning found = meaning(target, level);
  return found.symbol->spec == &spec_ ? declared(*found.symbol) : inferred(*found.symbol, std::move(found.outward));
}

std::string Family::name_for(const Symbol& target, const Level& level) const {
  const Meaning found = meaning(target, level);
  if (!found.symbol->library.empty()) return found.symbol->library;
  return found.symbol->spec == &spec_
             ? found.symbol->name
             : renamed_words(found.symbol->name, found.symbol->spec->names,
                             names_with(spec_, get_prefix(*found.symbol->spec, found.outward)));
}

const std::string& Family::library_type(const Symbol& target, const Level& level) const {
  return meaning(target, level).symbol->library_type;
}

/// Like resolve, but a class that names itself means the class that its code has become part of.
Entity* Family::meant(const Symbol& symbol, const Level& level, Entity& user) {
  return &symbol == level.symbol ? &user : resolve(symbol, level);
}

Entity* Family::declared(const Symbol& symbol) {
  const auto found = by_symbol_.find({&symbol, spec_.prefix});
  if (found != by_symbol_.end()) return found->second.front();
  return add(symbol.library.empty() ? symbol.name : symbol.library, &symbol, symbol, {});
}

Entity* Family::inferred(const Symbol& symbol, std::vector<Step> outward) {
  const auto [known, is_new] = by_path_.try_emplace({&symbol, outward});
  if (is_new) known->second = inferred_by(symbol, std::move(outward));
  return known->second;
}

/// Like inferred, for a path on which `symbol` was not reached before.
Entity* Family::inferred_by(const Symbol& symbol, std::vector<Step> outward) {
  const std::string prefix = get_prefix(*symbol.spec, outward);
  const std::vector<Entity*> others = by_symbol_[{&symbol, prefix}];
  for (Entity* other : others)
    if (same_meaning(symbol, other->levels.front().outward, outward)) return other;
  if (!symbol.library.empty()) return add(symbol.library, nullptr, symbol, std::move(outward));
  std::string name = renamed_words(symbol.name, symbol.spec->names, names_with(spec_, prefix));
  if (const auto other = by_name_.find(name); other != by_name_.end() && !symbol.is_class()) {
    // Functions of several families: one copy if they are the same, otherwise distinguished by prefix.
    const Symbol& there = *other->second->levels.front().symbol;
    if (!other->second->declared && others.empty() && same_code(there, symbol)) {
      by_symbol_[{&symbol, prefix}] = {other->second};
      return other->second;
    }
    const bool constant = name.size() > 1 && name[0] == 'k' && std::isupper(static_cast<unsigned char>(name[1]));
    name = constant ? "k" + prefix + name.substr(1) : snake_case(prefix) + "_" + name;
  }
  return add(name, nullptr, symbol, std::move(outward));
}

/// Whether two functions or constants of other families, and everything that they reach, become the same text. Those
/// with a state are two although their text is one.
bool Family::same_code(const Symbol& a, const Symbol& b, std::set<const Symbol*> seen) const {
  if (a.is_class() || b.is_class() || a.slices.size() != b.slices.size() || has_state(a)) return false;
  if (!seen.insert(&a).second) return true;
  const auto code = [&](const Symbol& symbol) {
    std::string text;
    for (const Slice* slice : symbol.slices)
      for (const RawToken& token : raw_tokens(file_text(slice->whole.file), slice->whole.begin, slice->whole.end)) {
        if (token.kind == RawToken::Kind::comment) continue;
        const std::string word(file_text(slice->whole.file).substr(token.begin, token.end - token.begin));
        text += renamed_word(word, symbol.spec->names, spec_.names) + " ";
      }
    return text;
  };
  if (code(a) != code(b)) return false;
  const auto reached = [&](const Symbol& symbol) {
    std::vector<const Symbol*> symbols;
    for (const Reference& reference : symbol.spec->references)
      for (const Slice* slice : symbol.slices)
        if (slice->whole.contains(reference.where) && reference.kind == Reference::Kind::name)
          if (const Symbol* target = specs_.symbol(reference.target); target && target != &symbol)
            symbols.push_back(target);
    return symbols;
  };
  const auto from_a = reached(a), from_b = reached(b);
  return std::equal(from_a.begin(), from_a.end(), from_b.begin(), from_b.end(),
                    [&](const Symbol* one, const Symbol* other) { return same_code(*one, *other, seen); });
}

/// Whether the code of `symbol` means the same when reached on two paths: families in between may have replaced what it
/// names.
bool Family::same_meaning(const Symbol& symbol, const std::vector<Step>& a, const std::vector<Step>& b,
                          std::set<const Symbol*> seen) const {
  if (a == b || !seen.insert(&symbol).second) return true;
  return std::ranges::all_of(symbol.spec->references, [&](const Reference& reference) {
    const Symbol* target = reference.kind == Reference::Kind::name ? specs_.symbol(reference.target) : nullptr;
    if (!target || target == &symbol ||
        std::ranges::none_of(symbol.slices, [&](const Slice* slice) { return slice->whole.contains(reference.where); }))
      return true;
    const Meaning here = meaning(*target, {&symbol, a}), there = meaning(*target, {&symbol, b});
    return here.symbol == there.symbol && same_meaning(*here.symbol, here.outward, there.outward, seen);
  });
}

/// The classes that make up `first`, most derived first.
std::vector<Level> Family::get_levels(const Symbol& first, std::vector<Step> outward) const {
  std::vector<Level> levels;
  if (!first.is_alias()) levels.push_back({&first, outward, get_prefix(*first.spec, outward)});
  if (!first.base) return levels;
  const auto get_base_levels = [&](const Symbol& base) {
    std::vector<Step> path = outward;
    if (base.spec != first.spec) path.insert(path.begin(), {first.spec, prefix_given(first, *base.spec)});
    return get_levels(base, std::move(path));
  };
  std::vector<Level> over = get_base_levels(*first.base),
                     under = first.under ? get_base_levels(*first.under) : std::vector<Level>{};
  const auto find_in = [](const std::vector<Level>& where, const Level& level) {
    return std::find_if(where.begin(), where.end(), [&](const Level& one) { return one.symbol == level.symbol; });
  };
  const auto common =
      std::find_if(over.begin(), over.end(), [&](const Level& one) { return find_in(under, one) != under.end(); });
  if (!under.empty() && common != over.begin() && common != over.end()) {
    const auto above = common - over.begin(), below = find_in(under, *common) - under.begin();
    over[static_cast<size_t>(above) - 1].over = static_cast<size_t>(above);
    over[static_cast<size_t>(above) - 1].under = static_cast<size_t>(below);
    over.erase(common, over.end());
    over.insert(over.end(), under.begin(), under.end());
  }
  levels.insert(levels.end(), over.begin(), over.end());
  return levels;
}

Entity* Family::add(std::string name, const Symbol* declared, const Symbol& first, std::vector<Step> outward) {
  auto entity = std::make_unique<Entity>();
  entity->name = name;
  entity->declared = declared;
  by_symbol_[{&first, get_prefix(*first.spec, outward)}].push_back(entity.get());
  entity->levels = get_levels(first, std::move(outward));
  entity->cause = declared ? declared->where : cause_;
  check_bases(specs_, *entity, [&](const Symbol& symbol, const Level& level) { return meaning(symbol, level).symbol; });
  Entity* const result = entity.get();
  if (!first.library.empty()) {  // several may mean the same class
    entities_.push_back(std::move(entity));
    return result;
  }
  if (const auto [other, added] = by_name_.emplace(name, result); !added) {
    const Entity& clash = *other->second;
    const Entity& later = declared || !clash.declared ? *result : clash;
    const Entity& earlier = &later == result ? clash : *result;
    const auto note = [&](const Entity& one) {
      const Symbol& symbol = *one.levels.front().symbol;
      return one.declared ? Remark{Diagnostic::Severity::note, one.declared->where, "the other definition", "", {}}
                          : Remark{Diagnostic::Severity::note,
                                   symbol.where,
                                   "what '" + symbol.name + "' of family '" + symbol.spec->name + "' becomes",
                                   "",
                                   {}};
    };
    std::vector<Remark> notes = {note(earlier)};
    if (!later.declared) notes.push_back(note(later));
    specs_.reject(later.declared ? later.declared->where : later.cause,
                  "two definitions would get the name '" + name + "' in family '" + spec_.name + "'",
                  "rename one of them, or name the class that it replaces with STANDS_FOR(…)", std::move(notes));
  }
  entities_.push_back(std::move(entity));
  return result;
}

std::string Family::member_name(const std::string& name, const Symbol& owner, const Level& level,
                                const Entity& user) const {
  // A redeclared member has the name of its first declaration.
  const Level* first = nullptr;
  bool below = false;
  for (const Level& one : user.levels) {
    below |= one.symbol == &owner;
    if (below && one.symbol->declares_field(name)) first = &one;
  }
  const std::string& class_name = (first ? first->symbol : &owner)->name;
  std::string result = name;
  for (const Step& step : (first ? *first : level).outward) {
    const MemberName* found = nullptr;
    for (const MemberName& member : step.family->members)
      if (member.from == result && (member.owner.empty() ? !found : member.owner == class_name)) found = &member;
    if (found) result = found->to;
    if (found && step.family == &spec_) matched_.insert(found);
  }
  return result;
}

// ---- The family -----------------------------------------------------------------------------------------------

Fragment Family::flatten() {
  for (const Symbol* symbol : spec_.symbols) declared(*symbol);
  for (size_t index = 0; index < entities_.size(); ++index) {  // grows during the loop
    if (!entities_[index]->levels.front().symbol->library.empty()) continue;
    write(*entities_[index]);
    if (entities_[index]->levels.front().symbol->names_type()) add_found_by_arguments(*entities_[index]);
  }
  check_uses();
  check_redefinitions();
  check_unnamed_variables();
  check_overloads(*this);
  warn();

  Fragment result;
  result.add(spec_.file_comment.substr(0, spec_.file_comment.find_last_not_of(" \n") + 1));
  if (!result.empty()) result.add(std::string("\n"));
  result.add("#pragma once\n\n" + includes() + "\n" + macro_definitions() +
             "namespace modular::flattened::" + spec_.name + " {\n");
  const Entity* previous = nullptr;
  std::set<const Entity*> declared;
  for (const auto& [entity, is_declaration, method] : in_order()) {
    if (!entity->levels.front().symbol->library.empty()) continue;
    Fragment text = method           ? definition_outside(*this, *entity, method)
                    : is_declaration ? declaration_text(*entity)
                                     : definition_text(*entity, declared.contains(entity));
    if (is_declaration) declared.insert(entity);
    const bool together = previous && !is_declaration && !previous->levels.front().symbol->is_class() &&
                          !entity->levels.front().symbol->is_class() && text.text().rfind("\n\n", 0) != 0 &&
                          entity->levels.front().symbol->kind == Symbol::Kind::value;
    result.add(std::string(together ? "\n" : "\n\n"));
    text = text.trimmed();
    text.set_cause(entity->cause);
    result.append(text);
    previous = entity;
  }
  result.add("\n\n}  // namespace modular::flattened::" + spec_.name + "\n");
  for (const size_t index : macros_)
    result.add((index == *macros_.begin() ? "\n#undef " : "#undef ") + macro_name(index) + "\n");
  return result;
}

std::vector<const Spec*> Family::contributing() const {
  std::set<const Spec*> named = {&spec_};
  for (const auto& entity : entities_)
    for (const Level& level : entity->levels) named.insert(level.symbol->spec);
  std::vector<const Spec*> specs;
  for (const auto& spec : specs_.all())
    if (named.contains(spec.get())) specs.push_back(spec.get());
  return specs;
}

std::string Family::includes() const {
  std::set<std::string> angled, quoted, guarded;
  for (const Spec* spec : contributing()) {
    for (const std::string& name : spec->libraries) (name[0] == '<' ? angled : quoted).insert(name);
    guarded.insert(spec->guarded.begin(), spec->guarded.end());
  }
  quoted.insert("\"runtime/model/model.h\"");
  const auto uses_one_of = [](const auto& entity) { return entity->text.text().find("OneOf<") != std::string::npos; };
  if (std::any_of(entities_.begin(), entities_.end(), uses_one_of)) quoted.insert("\"runtime/model/one_of.h\"");
  std::string text;
  for (const std::string& name : angled) text += "#include " + name + "\n";
  if (!angled.empty()) text += "\n";
  for (const std::string& block : guarded) text += block + "\n\n";
  for (const std::string& name : quoted) text += "#include " + name + "\n";
  return text;
}

// ---- Errors -----------------------------------------------------------------------------------------------

void Family::check_uses() {
  for (const Use& use : uses_) {
    const auto removed = use.owner->removed.find(use.member);
    if (removed == use.owner->removed.end() || !reported_.insert({use.where.file, use.where.begin}).second) continue;
    const bool own = use.where.file == spec_.file;
    const Remark note{Diagnostic::Severity::note,
                      own ? removed->second : use.where,
                      own ? "it is removed here" : "this inherited code still uses it",
                      "",
                      {}};
    specs_.reject(
        own ? use.where : removed->second,
        "'" + use.member + "' is removed from '" + use.owner->name + "' but still used",
        own ? "rewrite this without it, or keep the member" : "redefine the code that uses it, or keep the member",
        {note});
  }
}

/// Variables of bases that nothing of this family names, and whose initializers do something, such as to register
/// something.
void Family::check_unnamed_variables() {
  std::set<const Symbol*> named;
  for (const auto& entity : entities_)
    for (const Level& level : entity->levels) named.insert(level.symbol);
  for (const Spec* spec : contributing()) {
    if (spec == &spec_) continue;
    for (const Symbol* symbol : spec->symbols) {
      if (symbol->kind != Symbol::Kind::value || symbol->is_lookup || named.contains(symbol)) continue;
      const auto has_effects = [](const clang::NamedDecl* decl) {
        const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl);
        return variable && variable->getInit() && !find_side_effects(variable->getInit(), {}).is_pure();
      };
      if (std::ranges::any_of(symbol->decls, has_effects))
        specs_.reject(symbol->where,
                      "the initializer of '" + symbol->name + "' has side effects, which family '" + spec_.name +
                          "' would lose: nothing in it names the variable",
                      "do this in a function that the code calls, or name the variable there", {});
    }
  }
}

void Family::check_redefinitions() {
  std::set<const Entity*> reached;
  std::vector<const Entity*> next;
  bool has_entry = false;
  for (const auto& entity : entities_) {
    if (!entity->declared) continue;
    const bool is_root = !entity->declared->base && entity->declared->is_class(),
               is_entry_class = specs_.is_entry(*entity->declared);
    has_entry |= is_entry_class;
    if (is_root || is_entry_class) next.push_back(entity.get());
  }
  if (!has_entry) return;  // a library of parts: everything that it declares may be used
  while (!next.empty()) {
    const Entity* entity = next.back();
    next.pop_back();
    if (!reached.insert(entity).second) continue;
    for (const std::vector<Entity*>* some : {&entity->needs, &entity->found_by_arguments})
      next.insert(next.end(), some->begin(), some->end());
  }
  for (const auto& entity : entities_) {
    const Symbol* symbol = entity->declared;
    if (!symbol || reached.count(entity.get()) || symbol->is_lookup) continue;
    const Symbol* replaces = symbol->base;
    for (const auto& spec : specs_.all()) {
      if (replaces || symbol->is_class() || spec.get() == &spec_ || !spec_.sees(*spec)) continue;
      for (const Symbol* other : spec->symbols)
        if (!other->is_class() && covering(spec_, *other, spec_.prefix) == symbol) replaces = other;
    }
    if (replaces)
      specs_.reject(symbol->where,
                    "nothing in family '" + spec_.name + "' uses this redefinition of '" + replaces->name + "'",
                    "remove it, or give it the name of the definition that it replaces ('" +
                        renamed_words(replaces->name, replaces->spec->names, spec_.names) + "'), or add STANDS_FOR(…)",
                    {{Diagnostic::Severity::note, replaces->where, "the inherited definition", "", {}}});
  }
}

}  // namespace modgen
