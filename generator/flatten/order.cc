// The order of a family's declarations in its file.
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <functional>

#include "generator/flatten/family.h"
#include "generator/resolve/specs.h"

namespace modgen {
namespace {

bool has_declaration(const Entity& entity) {
  return std::ranges::any_of(entity.parts, [](const Entity::Part& part) { return part.is_declaration; });
}

bool reaches(const Entity& from, const Entity& to, std::set<const Entity*>& seen) {
  return std::ranges::any_of(from.needs, [&](const Entity* one) {
    return one == &to || (seen.insert(one).second && reaches(*one, to, seen));
  });
}

/// The location of the definition in the spec that declares the entity first.
uint32_t definition_of(const Entity& entity) {
  if (has_declaration(entity))
    for (const Entity::Part& part : entity.parts)
      if (!part.is_declaration) return part.slice->core.begin;
  return entity.levels.back().symbol->where.begin;
}

bool names(const Named& named, Entity& need) { return named.all.contains(&need) || named.complete.contains(&need); }

/// The parts of the entity's text that are at its own place: all but the bodies outside of its class.
std::vector<const Named*> parts_in_place(const Entity& entity) {
  std::vector<const Named*> parts = {&entity.around};
  for (const Entity::Method& method : entity.methods)
    if (!method.is_outside) parts.push_back(&method.named);
  return parts;
}

}  // namespace

/// Whether the class declares the function as its friend, which calls with the class's objects find.
bool Family::befriends(const Entity& entity, const Entity& function) const {
  const Symbol& symbol = *function.levels.front().symbol;
  const auto is_it = [&](const clang::NamedDecl& granted, const Level& level) {
    const Symbol* named = specs_.symbol(&granted);
    if (named && named != &symbol) return name_for(*named, level) == function.name;
    return std::ranges::any_of(symbol.decls, [&](const clang::NamedDecl* decl) {
      return decl->getCanonicalDecl() == granted.getCanonicalDecl();
    });
  };
  return std::ranges::any_of(entity.levels, [&](const Level& level) {
    return level.symbol->record &&
           std::ranges::any_of(level.symbol->record->friends(), [&](const clang::FriendDecl* one) {
             return one->getFriendDecl() && is_it(*one->getFriendDecl(), level);
           });
  });
}

/// Whether a declaration of `need` is not enough for `named`, a part of the text of `entity`.
bool Family::needs_definition(const Entity& entity, const Named& named, Entity& need) const {
  if (&need == &entity || !names(named, need)) return false;
  if (need.levels.front().symbol->kind == Symbol::Kind::function)
    return !has_declaration(need) && !befriends(entity, need);
  return !need.levels.front().symbol->is_class() || named.complete.contains(&need);
}

/// Adds what `entity` needs the definitions of at its place, and what these need in turn.
void Family::add_required(const Entity& entity, std::set<const Entity*>& required) const {
  const auto add = [&](const Named& named) {
    for (const std::set<Entity*>* some : {&named.all, &named.complete})
      for (Entity* need : *some)
        if (needs_definition(entity, named, *need) && required.insert(need).second) add_required(*need, required);
  };
  for (const Named* part : parts_in_place(entity)) add(*part);
}

/// Adds the classes that calls take or return as values to those whose definitions the calls need.
void Family::add_values() {
  const auto add = [&](Named& named, const Entity& user) {
    for (const std::string& name : named.values)
      if (const auto found = by_name_.find(name); found != by_name_.end() && found->second != &user)
        named.complete.insert(found->second);
  };
  for (const auto& entity : entities_) {
    add(entity->around, *entity);
    for (Entity::Method& method : entity->methods) add(method.named, *entity);
  }
}

/// Moves the bodies that need the definition of something that itself needs the class's: those that the specs define
/// after their class first.
void Family::move_bodies_outside() {
  std::map<const Entity*, std::set<const Entity*>> required;  // looked up, never iterated
  const auto requires_class = [&](const Entity& need, const Entity& entity) {
    const auto [known, is_new] = required.try_emplace(&need);
    if (is_new) add_required(need, known->second);
    return known->second.contains(&entity);
  };
  for (const bool is_after : {true, false})
    for (const auto& entity : entities_)
      for (Entity::Method& method : entity->methods) {
        const auto is_circular = [&](Entity* need) {
          return needs_definition(*entity, method.named, *need) && requires_class(*need, *entity);
        };
        if (method.is_outside || method.declaration->doesThisDeclarationHaveABody() == is_after) continue;
        method.is_outside = std::ranges::any_of(method.named.all, is_circular) ||
                            std::ranges::any_of(method.named.complete, is_circular);
        if (method.is_outside) required.clear();
      }
}

/// Dependencies first, except where the specs declare one before they define it and cycles need that; otherwise in the
/// order of the specs as this family's includes give it: a replacement or an inherited definition stands where its
/// origin stood. A body outside of its class follows once everything that it needs is there.
std::vector<Family::Piece> Family::in_order() {
  add_values();
  move_bodies_outside();
  std::map<const Spec*, size_t> files;  // included ones first, independent of the other families of this run
  size_t count = 0;
  const std::function<void(const Spec&)> include = [&](const Spec& spec) {
    // Before its includes: they may include it again, which is an error.
    const auto [file, is_new] = files.emplace(&spec, 0);
    if (!is_new) return;
    for (const Spec* other : spec.includes) include(*other);
    file->second = count++;
  };
  include(spec_);
  std::vector<Entity*> sorted;
  std::vector<Piece> pieces;
  for (const auto& entity : entities_) sorted.push_back(entity.get());
  const auto position = [&](const Entity* entity) {
    const Symbol& origin = *entity->levels.back().symbol;
    return std::pair<size_t, uint32_t>(files.at(origin.spec), definition_of(*entity));
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Entity* a, const Entity* b) { return position(a) < position(b); });
  std::set<const Entity*> seen, known, defined;  // known: declared or defined
  std::vector<Piece> waiting;                    // bodies outside of their classes
  const auto is_complete = [&](const Piece& body) {
    const Named& named = body.entity->methods[body.method - 1].named;
    const auto is_there = [&](Entity* need) {
      return (needs_definition(*body.entity, named, *need) ? defined : known).contains(need);
    };
    return std::ranges::all_of(named.all, is_there) && std::ranges::all_of(named.complete, is_there);
  };
  const auto define = [&](Entity* entity) {
    known.insert(entity);
    defined.insert(entity);
    pieces.push_back({entity, false});
    for (size_t index = 0; index < entity->methods.size(); ++index)
      if (entity->methods[index].is_outside) waiting.push_back({entity, false, index + 1});
    std::erase_if(waiting, [&](const Piece& body) {
      const bool ready = is_complete(body);
      if (ready) pieces.push_back(body);
      return ready;
    });
  };
  // Whether nothing that the entity needs is being visited.
  const auto is_ready = [&](const Entity& entity) {
    return std::ranges::none_of(seen, [&](const Entity* other) {
      std::set<const Entity*> reached;
      return !defined.contains(other) && reaches(entity, *other, reached);
    });
  };
  const std::function<void(Entity*)> visit = [&](Entity* entity) {
    if (!seen.insert(entity).second) {
      if (!known.contains(entity)) declare(*entity, pieces, known);  // a cycle
      return;
    }
    const std::vector<const Named*> parts = parts_in_place(*entity);
    std::vector<Entity*> needs = entity->needs;
    std::erase_if(needs, [&](Entity* need) {
      return std::ranges::none_of(parts, [&](const Named* part) { return names(*part, *need); });
    });
    std::stable_sort(needs.begin(), needs.end(),
                     [&](const Entity* a, const Entity* b) { return position(a) < position(b); });
    for (Entity* need : needs) {
      const bool comes_first =
          std::ranges::any_of(parts, [&](const Named* part) { return needs_definition(*entity, *part, *need); });
      std::set<const Entity*> reached;
      if (seen.contains(need) || comes_first || !reaches(*need, *entity, reached)) visit(need);
    }
    for (Entity* need : needs)
      if (!known.contains(need)) declare(*need, pieces, known);
    // Functions of later specs for objects of these classes, which libraries that inherited code calls may call.
    for (Entity* need : needs)
      for (Entity* function : need->found_by_arguments)
        if (!seen.contains(function) && position(function).first > position(entity).first && is_ready(*function))
          visit(function);
    define(entity);
  };
  for (Entity* entity : sorted)
    if (!seen.contains(entity)) visit(entity);
  return pieces;
}

/// Adds a declaration of `entity`, which is defined later, after those of the classes that it names.
void Family::declare(Entity& entity, std::vector<Piece>& pieces, std::set<const Entity*>& known) {
  const Level& level = entity.levels.front();
  if (!level.symbol->is_class() && !has_declaration(entity)) return;
  if (!known.insert(&entity).second) return;
  for (const Entity::Part& part : entity.parts)
    for (const Reference& reference : level.symbol->spec->references) {
      if (!part.is_declaration || !part.slice->whole.contains(reference.where)) continue;
      const Symbol* target = reference.kind == Reference::Kind::name ? specs_.symbol(reference.target) : nullptr;
      Entity* const named = target && target->is_class() ? meant(*target, level, entity) : nullptr;
      if (named && named != &entity && !known.contains(named)) declare(*named, pieces, known);
    }
  pieces.push_back({&entity, true});
}

Fragment Family::declaration_text(const Entity& entity) {
  Fragment text;
  if (entity.levels.front().symbol->is_class()) {
    const bool is_struct = entity.levels.back().symbol->record->isStruct();
    text.add(std::string(is_struct ? "struct " : "class "));
    text.add(entity.name + (entity.is_module() ? "Impl" : "") + ";", entity.levels.back().symbol->where);
  }
  for (const Entity::Part& part : entity.parts)
    if (part.is_declaration) text.append(part.text);
  return text;
}

Fragment Family::definition_text(const Entity& entity, bool is_declared) {
  std::set<uint32_t> moved;
  for (uint32_t index = 0; index < entity.methods.size(); ++index)
    if (entity.methods[index].is_outside) moved.insert(index + 1);
  if (!moved.empty()) return entity.text.with_parts_replaced(moved, ";");
  if (!is_declared || entity.parts.empty()) return entity.text;
  Fragment text;
  for (const Entity::Part& part : entity.parts)
    if (!part.is_declaration) text.append(part.text);
  return text;
}

}  // namespace modgen
