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

/// Whether a class of `entity` declares the function as its friend.
bool befriends(const Entity& entity, const Entity& function) {
  const auto& decls = function.levels.front().symbol->decls;
  return std::ranges::any_of(entity.levels, [&](const Level& level) {
    return level.symbol->record &&
           std::ranges::any_of(level.symbol->record->friends(), [&](const clang::FriendDecl* one) {
             const clang::NamedDecl* granted = one->getFriendDecl();
             return granted && std::ranges::any_of(decls, [&](const clang::NamedDecl* decl) {
                      return decl->getCanonicalDecl() == granted->getCanonicalDecl();
                    });
           });
  });
}

/// Whether a declaration of `need` is enough for `entity`.
bool may_precede(const Entity& entity, const Entity& need) {
  if (need.levels.front().symbol->kind == Symbol::Kind::function)
    return has_declaration(need) || befriends(entity, need);
  return need.levels.front().symbol->is_class() && !entity.complete.contains(&need);
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

}  // namespace

/// Dependencies first, except where the specs declare one before they define it and cycles need that; otherwise in the
/// order of the specs as this family's includes give it: a replacement or an inherited definition stands where its
/// origin stood.
std::vector<Family::Piece> Family::in_order() {
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
  std::set<const Entity*> seen, known;  // known: declared or defined
  const std::function<void(Entity*)> visit = [&](Entity* entity) {
    if (!seen.insert(entity).second) {
      if (!known.contains(entity)) declare(*entity, pieces, known);  // a cycle
      return;
    }
    std::vector<Entity*> needs = entity->needs;
    std::stable_sort(needs.begin(), needs.end(),
                     [&](const Entity* a, const Entity* b) { return position(a) < position(b); });
    for (Entity* need : needs) {
      std::set<const Entity*> reached;
      if (seen.contains(need) || !may_precede(*entity, *need) || !reaches(*need, *entity, reached)) visit(need);
    }
    for (Entity* need : needs)
      if (!known.contains(need)) declare(*need, pieces, known);
    known.insert(entity);
    pieces.push_back({entity, false});
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
  if (!is_declared || entity.parts.empty()) return entity.text;
  Fragment text;
  for (const Entity::Part& part : entity.parts)
    if (!part.is_declaration) text.append(part.text);
  return text;
}

}  // namespace modgen
