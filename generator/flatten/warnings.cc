// The outline of a flattened family, and warnings for declarations that have no effect and probably were meant to have
// one.
#include "generator/flatten/family.h"

#include <algorithm>
#include <set>

#include "generator/flatten/outline.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// Methods that the contract calls by name.
const std::set<std::string> kCalledByContract = {"forward", "forward_on_shards", "finish",
                                                 "fields",  "stored_as",         "tensors"};

}  // namespace

void Family::warn() const {
  // A library of parts declares what other families use.
  const bool is_whole = std::ranges::any_of(
      entities_, [&](const auto& entity) { return entity->declared && specs_.is_entry(*entity->declared); });
  std::map<std::string, int> words;
  for (const auto& entity : entities_) {
    const std::string& text = entity->text.text();
    for (const RawToken& token : raw_tokens(text, 0, static_cast<uint32_t>(text.size())))
      if (token.kind == RawToken::Kind::identifier) ++words[text.substr(token.begin, token.end - token.begin)];
  }
  for (const auto& entity : entities_)
    for (const Entity::NewMethod& method : entity->new_methods) {
      const bool is_named = std::ranges::any_of(uses_, [&](const Use& use) { return use.member == method.name; });
      const bool is_unused = is_whole && words[method.name] == 1 && !kCalledByContract.count(method.name);
      if (is_named || (method.near.empty() && !is_unused)) continue;
      specs_.warn(method.where,
                  "nothing calls '" + method.name + "' of '" + entity->name + "', and it replaces no inherited method",
                  method.near.empty() ? "remove it, or give it the name of the method that it should replace; REPLACES "
                                        "before it makes this an error"
                                      : "if it should replace '" + method.near +
                                            "', give it that name; REPLACES before it makes this an error");
    }
  for (const MemberName& member : spec_.members)
    if (!matched_.count(&member))
      specs_.warn(member.where,
                  "family '" + spec_.name + "' inherits no member '" + member.from + "'" +
                      (member.owner.empty() ? "" : " of '" + member.owner + "'") + " that this could rename",
                  "use the name of the member's first declaration and the class that declares it, or remove this");
}

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
