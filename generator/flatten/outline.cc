#include "generator/flatten/outline.h"

#include <algorithm>

#include "generator/flatten/family.h"

namespace modgen {

namespace {

ClassOutline make_outline(const Family& family, const Entity& entity) {
  ClassOutline result;
  result.name = entity.name;
  result.kind = entity.is_module() ? ClassOutline::Kind::module : ClassOutline::Kind::plain;
  result.declared = entity.declared != nullptr;
  result.alias = entity.declared && entity.declared->is_alias();
  const Symbol& nearest = *entity.levels.front().symbol;
  result.where = family.parsed().sources.locate(entity.declared ? entity.declared->where : nearest.where);
  for (const Level& level : entity.levels)
    if (level.symbol != entity.declared) result.bases.push_back(level.symbol->spec->name + "::" + level.symbol->name);
  for (const Entity* need : entity.needs)
    if (need->levels.front().symbol->is_class() && need != &entity && !std::ranges::count(result.uses, need->name))
      result.uses.push_back(need->name);
  return result;
}

}  // namespace

FamilyOutline make_outline(const Family& family) {
  FamilyOutline result;
  result.prefix = family.spec().prefix;
  result.spec = family.parsed().sources[family.spec().file].path;
  for (const Spec* other : family.spec().includes) result.includes.push_back(other->name);
  for (const auto& entity : family.entities())
    if (entity->levels.front().symbol->is_class()) result.classes.push_back(make_outline(family, *entity));
  return result;
}

}  // namespace modgen
