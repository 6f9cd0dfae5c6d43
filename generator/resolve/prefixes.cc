#include "generator/resolve/specs.h"

#include <algorithm>
#include <set>

namespace modgen {

Names names_with(const Spec& family, std::string prefix) {
  Names names = family.names;
  names.prefix = std::move(prefix);
  return names;
}

namespace {

/// The prefix of `symbol` that replaces its base's prefix; empty if its name does not end like its base's, or its base
/// is of the same family.
std::string get_prefix(const Symbol& symbol) {
  const Symbol* base = symbol.base;
  if (!symbol.is_class() || !base || base->spec == symbol.spec) return "";
  const std::string &prefix = base->spec->prefix, &name = symbol.name;
  if (!base->name.starts_with(prefix) || base->name == prefix) return "";
  const std::string rest = base->name.substr(prefix.size());
  if (name.size() <= rest.size() || name.substr(name.size() - rest.size()) != rest) return "";
  return name.substr(0, name.size() - rest.size());
}

bool counts_for_others(const std::map<std::string, int>& counts, const std::string& prefix, const Spec& family) {
  const auto found = counts.find(prefix);
  return found != counts.end() && (found->second > 1 || prefix == family.prefix || !counts.count(family.prefix));
}

}  // namespace

const std::map<std::string, int>& Spec::prefixes_over(const Spec& base) const {
  const auto [found, added] = prefixes_.try_emplace(&base);
  if (added)
    for (const Symbol* symbol : symbols)
      if (symbol->base && symbol->base->spec == &base)
        if (const std::string own = get_prefix(*symbol); !own.empty()) ++found->second[own];
  return found->second;
}

size_t Spec::bases() const {
  std::set<const Spec*> found;
  for (const Symbol* symbol : symbols)
    if (symbol->base && symbol->base->spec != this) found.insert(symbol->base->spec);
  return found.size();
}

std::string prefix_given(const Spec& family, const Spec& base) {
  const auto& counts = family.prefixes_over(base);
  return counts.size() == 1 ? counts.begin()->first : family.prefix;
}

std::string prefix_given(const Symbol& symbol, const Spec& base) {
  if (symbol.base && symbol.base->spec == &base)
    if (const std::string own = get_prefix(symbol);
        counts_for_others(symbol.spec->prefixes_over(base), own, *symbol.spec))
      return own;
  return prefix_given(*symbol.spec, base);
}

/// Whether `own`, an operator of `family`, takes what `other`, one of another spec, takes in this family.
static bool takes_same(const Spec& family, const Symbol& own, const Symbol& other, const std::string& prefix) {
  const auto is_same = [&](const Symbol* here, const Symbol* there) {
    if (here == there) return true;
    if (const Symbol* replacement = covering(family, *there, prefix)) return replacement == here;
    const Symbol* from = here->spec == &family ? nullptr : here;  // a class that this family infers
    while (from && from != there) from = from->base;
    return from == there;
  };
  return own.signature.text == other.signature.text &&
         std::equal(own.signature.classes.begin(), own.signature.classes.end(), other.signature.classes.begin(),
                    other.signature.classes.end(), is_same);
}

Symbol* covering(const Spec& family, const Symbol& symbol, const std::string& prefix) {
  const Names& from = symbol.spec->names;
  const std::string own_name = renamed_word(symbol.name, from, names_with(family, prefix));
  const std::string plain_name = renamed_word(symbol.name, from, family.names);
  Symbol *named = nullptr, *plain = nullptr, *special = nullptr;
  int specials = 0;
  for (Symbol* candidate : family.symbols) {
    if (candidate->stands_for) {
      if (candidate->replaced == &symbol) return candidate;
      continue;
    }
    if (candidate->names_class() != symbol.names_class()) continue;
    if (!symbol.signature.text.empty()) {
      if (takes_same(family, *candidate, symbol, prefix)) return candidate;
      continue;
    }
    const bool same_base = candidate->base ? candidate->base->spec == symbol.spec : family.bases() == 1;
    if (candidate->name == own_name || (!symbol.names_class() && candidate->name == symbol.name))
      named = candidate;
    else if (candidate->name == plain_name && same_base)
      plain = candidate;
    else if (symbol.is_class() && candidate->base == &symbol &&
             counts_for_others(family.prefixes_over(*symbol.spec), get_prefix(*candidate), family))
      special = candidate, ++specials;
  }
  return named ? named : plain ? plain : specials == 1 ? special : nullptr;
}

}  // namespace modgen
