#include "generator/family.h"

#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "generator/slices.h"

namespace modgen {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

}  // namespace

Family::Family(const Specs& specs, const Spec& spec) : specs_(specs), spec_(spec) {}

std::string Family::renamed(std::string_view text, const Spec& from) const {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      result += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    result += renamed_word(std::string(text.substr(at, end - at)), from, spec_);
    at = end;
  }
  return result;
}

// ---- What a name means ----------------------------------------------------------------------------------------------

Entity* Family::resolve(const Symbol& target, const Level& level) {
  std::vector<const Spec*> path = level.outward;
  if (target.spec != level.symbol->spec) path.insert(path.begin(), level.symbol->spec);
  const Symbol* current = &target;
  std::vector<const Spec*> rest = path;
  for (size_t index = 0; index < path.size(); ++index) {
    if (const Symbol* replacement = covering(*path[index], *current)) {
      current = replacement;
      rest.assign(path.begin() + static_cast<long>(index) + 1, path.end());
    }
  }
  return current->spec == &spec_ ? declared(*current) : inferred(*current, rest);
}

/// As resolve, but a class that names itself means the class that its code has become part of.
Entity* Family::meant(const Symbol& symbol, const Level& level, Entity& user) {
  return &symbol == level.symbol ? &user : resolve(symbol, level);
}

Entity* Family::declared(const Symbol& symbol) {
  const auto found = by_symbol_.find(&symbol);
  return found != by_symbol_.end() ? found->second : add(symbol.name, &symbol, symbol, {});
}

Entity* Family::inferred(const Symbol& symbol, std::vector<const Spec*> outward) {
  const auto found = by_symbol_.find(&symbol);
  return found != by_symbol_.end()
             ? found->second
             : add(renamed_word(symbol.name, *symbol.spec, spec_), nullptr, symbol, std::move(outward));
}

Entity* Family::add(std::string name, const Symbol* declared, const Symbol& first, std::vector<const Spec*> outward) {
  auto entity = std::make_unique<Entity>();
  entity->name = name;
  entity->declared = declared;
  for (const Symbol* symbol = &first; symbol; symbol = symbol->base) {
    if (!symbol->is_alias()) entity->levels.push_back({symbol, outward});
    if (symbol->base && symbol->base->spec != symbol->spec) outward.insert(outward.begin(), symbol->spec);
  }
  Entity* const result = entity.get();
  if (const auto [other, added] = by_name_.emplace(name, result); !added) {
    const Symbol& clash = *other->second->levels.front().symbol;
    const SourceSpan where = declared                  ? declared->where
                             : other->second->declared ? other->second->declared->where
                                                       : spec_.family;
    specs_.refuse(where, "two definitions would get the name '" + name + "' in family '" + spec_.name + "'",
                  "rename one of them, or say with STANDS_FOR(…) which class it replaces",
                  {{Diagnostic::Severity::note, clash.where, "one is made from this", "", {}},
                   {Diagnostic::Severity::note, first.where, "the other is made from this", "", {}}});
  }
  by_symbol_[&first] = result;
  entities_.push_back(std::move(entity));
  return result;
}

// ---- Text -----------------------------------------------------------------------------------------------------------

std::string Family::reference_text(const Reference& reference, const Level& level, Entity& user) {
  const std::string spelled(parsed().sources.text(reference.where));
  if (reference.kind == Reference::Kind::qualifier) {
    const auto* space = llvm::cast<clang::NamespaceDecl>(reference.target);
    return specs_.of_namespace(space) ? "" : spelled;
  }
  if (reference.kind == Reference::Kind::member) {
    const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(reference.target->getDeclContext());
    const Symbol* symbol = owner ? specs_.symbol(owner) : nullptr;
    if (symbol && !reference.in_macro_body) uses_.push_back({meant(*symbol, level, user), spelled, reference.where});
    return spelled;
  }
  const Symbol* symbol = specs_.symbol(reference.target);
  if (!symbol) return spelled;
  Entity* const entity = meant(*symbol, level, user);
  if (entity != &user && std::find(user.needs.begin(), user.needs.end(), entity) == user.needs.end())
    user.needs.push_back(entity);
  const std::string target_name =
      reference.target->getDeclName().isIdentifier() ? reference.target->getName().str() : spelled;
  const bool is_impl = symbol->kind == Symbol::Kind::module_class && target_name != symbol->name;
  const std::string text = symbol->kind == Symbol::Kind::function && !reference.target->getDeclName().isIdentifier()
                               ? spelled
                               : entity->name + (is_impl ? "Impl" : "");
  if (!reference.in_macro_body) return text;
  if (text != target_name && spelled.rfind("TORCH_MODULE", 0) != 0 &&
      told_.insert({reference.where.file, reference.where.begin}).second)
    specs_.refuse(
        reference.where,
        "the body of macro '" + spelled + "' names '" + target_name + "', which would have to become '" + text + "'",
        "pass the name as an argument of the macro, or write its text here");
  return spelled;
}

Fragment Family::render(SourceSpan span, const Level& level, Entity& user, const Substitution& arguments,
                        std::vector<Replacement> replacements) {
  const std::string& text = file_text(span.file);
  const Spec& from = *level.symbol->spec;
  const auto replaced = [&](const SourceSpan& where) {
    return std::any_of(replacements.begin(), replacements.end(), [&](const Replacement& one) {
      return one.where.begin <= where.begin && where.end <= one.where.end && one.where.begin < one.where.end;
    });
  };
  std::vector<Replacement> edits;
  const auto& references = from.references;
  auto next =
      std::lower_bound(references.begin(), references.end(), span.begin,
                       [](const Reference& reference, uint32_t begin) { return reference.where.begin < begin; });
  for (; next != references.end() && next->where.begin < span.end; ++next) {
    if (replaced(next->where) || (!edits.empty() && next->where.begin < edits.back().where.end)) continue;
    if (const auto argument = arguments.find(next->target); argument != arguments.end()) {
      edits.push_back({next->where, argument->second});
      continue;
    }
    std::string after = reference_text(*next, level, user);
    if (after == parsed().sources.text(next->where)) continue;
    Fragment changed;
    changed.add(after, next->where);
    // `modular::llama::x`: the outer qualifier goes with the inner one.
    if (after.empty() && next->kind == Reference::Kind::qualifier) {
      constexpr std::string_view kOuter = "modular::";
      SourceSpan whole = next->where;
      if (whole.begin >= kOuter.size() && text.compare(whole.begin - kOuter.size(), kOuter.size(), kOuter) == 0)
        whole.begin -= kOuter.size();
      edits.push_back({whole, changed});
      continue;
    }
    edits.push_back({next->where, changed});
  }
  if (&from != &spec_) {
    for (const RawToken& token : raw_tokens(text, span.begin, span.end)) {
      if (token.kind != RawToken::Kind::comment && token.kind != RawToken::Kind::string) continue;
      const SourceSpan where{span.file, token.begin, token.end};
      if (replaced(where)) continue;
      const std::string before(parsed().sources.text(where)), after = renamed(before, from);
      if (after == before) continue;
      Fragment changed;
      changed.add(after, where);
      edits.push_back({where, changed});
      renamings_.push_back({where, before, after});
    }
  }
  for (Replacement& replacement : replacements)
    if (span.begin <= replacement.where.begin && replacement.where.end <= span.end)
      edits.push_back(std::move(replacement));
  std::stable_sort(edits.begin(), edits.end(),
                   [](const auto& a, const auto& b) { return a.where.begin < b.where.begin; });

  Fragment result;
  uint32_t at = span.begin;
  for (const Replacement& edit : edits) {
    if (edit.where.begin < at) continue;  // inside of one that was applied
    result.add_verbatim(std::string_view(text).substr(at, edit.where.begin - at), {span.file, at, edit.where.begin});
    result.append(edit.text);
    at = edit.where.end;
  }
  if (at < span.end) result.add_verbatim(std::string_view(text).substr(at, span.end - at), {span.file, at, span.end});
  return result;
}

void Family::write(Entity& entity) {
  if (entity.levels.front().symbol->is_class()) {
    entity.text = class_text(*this, entity);
    return;
  }
  for (const Slice* slice : entity.levels.front().symbol->slices)
    entity.text.append(render(slice->whole, entity.levels.front(), entity));
}

// ---- The whole family -----------------------------------------------------------------------------------------------

Fragment Family::flatten() {
  for (const Symbol* symbol : spec_.symbols) declared(*symbol);
  for (size_t index = 0; index < entities_.size(); ++index) write(*entities_[index]);  // grows while it is walked
  check_uses();
  check_redefinitions();

  Fragment result;
  result.add(spec_.file_comment.substr(0, spec_.file_comment.find_last_not_of(" \n") + 1));
  if (!result.empty()) result.add(std::string("\n"));
  result.add("#pragma once\n\n" + includes() + "\nnamespace modular::flattened::" + spec_.name + " {\n");
  const Entity* previous = nullptr;
  for (const Entity* entity : in_order()) {
    const bool together = previous && !previous->levels.front().symbol->is_class() &&
                          !entity->levels.front().symbol->is_class() && entity->text.text().rfind("\n\n", 0) != 0 &&
                          entity->levels.front().symbol->kind == Symbol::Kind::value;
    result.add(std::string(together ? "\n" : "\n\n"));
    result.append(entity->text.trimmed());
    previous = entity;
  }
  result.add("\n\n}  // namespace modular::flattened::" + spec_.name + "\n");
  return result;
}

/// Dependencies first, and otherwise in the order of the specs: what replaces or is inherited stands where its origin
/// stood.
std::vector<Entity*> Family::in_order() {
  std::vector<Entity*> sorted, result;
  for (const auto& entity : entities_) sorted.push_back(entity.get());
  const auto place = [&](const Entity* entity) {
    const Symbol& origin = *entity->levels.back().symbol;
    size_t file = 0;
    while (specs_.all()[file].get() != origin.spec) ++file;
    return std::pair<size_t, uint32_t>(file, origin.where.begin);
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Entity* a, const Entity* b) { return place(a) < place(b); });
  std::set<const Entity*> seen;
  const std::function<void(Entity*)> visit = [&](Entity* entity) {
    if (!seen.insert(entity).second) return;
    std::vector<Entity*> needs = entity->needs;
    std::stable_sort(needs.begin(), needs.end(), [&](const Entity* a, const Entity* b) { return place(a) < place(b); });
    for (Entity* need : needs) visit(need);
    result.push_back(entity);
  };
  for (Entity* entity : sorted) visit(entity);
  return result;
}

std::string Family::includes() const {
  std::set<std::string> angled, quoted;
  std::set<const Spec*> contributing = {&spec_};
  for (const auto& entity : entities_)
    for (const Level& level : entity->levels) contributing.insert(level.symbol->spec);
  for (const auto& spec : specs_.all()) {
    if (!contributing.count(spec.get())) continue;
    for (const std::string& name : spec->libraries) (name[0] == '<' ? angled : quoted).insert(name);
  }
  quoted.insert("\"runtime/model/model.h\"");
  std::string text;
  for (const std::string& name : angled) text += "#include " + name + "\n";
  if (!angled.empty()) text += "\n";
  for (const std::string& name : quoted) text += "#include " + name + "\n";
  return text;
}

// ---- What must not be -----------------------------------------------------------------------------------------------

void Family::check_uses() {
  for (const Use& use : uses_) {
    const auto removed = use.owner->removed.find(use.member);
    if (removed == use.owner->removed.end() || !told_.insert({use.where.file, use.where.begin}).second) continue;
    const bool own = use.where.file == spec_.file;
    const Remark note{Diagnostic::Severity::note,
                      own ? removed->second : use.where,
                      own ? "it is removed here" : "this inherited code still uses it",
                      "",
                      {}};
    specs_.refuse(
        own ? use.where : removed->second,
        "'" + use.member + "' is removed from '" + use.owner->name + "' but still used",
        own ? "write this without it, or keep the member" : "redefine the code that uses it, or keep the member",
        {note});
  }
}

void Family::check_redefinitions() {
  std::set<const Entity*> reached;
  std::vector<const Entity*> next;
  bool has_entry = false;
  for (const auto& entity : entities_) {
    if (!entity->declared) continue;
    bool root = !entity->declared->base && entity->declared->is_class();
    std::vector<const clang::Decl*> marked(entity->declared->decls.begin(), entity->declared->decls.end());
    for (const clang::Decl* decl : marked)
      for (const AnnotationMacro& note : annotations(*decl, specs_.manager(), parsed())) {
        root |= note.kind == "entry";
        has_entry |= note.kind == "entry";
      }
    if (root) next.push_back(entity.get());
  }
  if (!has_entry) return;  // a family of parts: everything that it declares may be used
  while (!next.empty()) {
    const Entity* entity = next.back();
    next.pop_back();
    if (reached.insert(entity).second) next.insert(next.end(), entity->needs.begin(), entity->needs.end());
  }
  for (const auto& entity : entities_) {
    const Symbol* symbol = entity->declared;
    if (!symbol || reached.count(entity.get())) continue;
    const Symbol* replaces = symbol->base;
    for (const auto& spec : specs_.all()) {
      if (replaces || symbol->is_class() || spec.get() == &spec_ || !spec_.sees(*spec)) continue;
      for (const Symbol* other : spec->symbols)
        if (!other->is_class() && covering(spec_, *other) == symbol) replaces = other;
    }
    if (replaces)
      specs_.refuse(symbol->where,
                    "nothing in family '" + spec_.name + "' uses this redefinition of '" + replaces->name + "'",
                    "remove it, or give it the name of what it replaces ('" +
                        renamed_word(replaces->name, *replaces->spec, spec_) + "'), or say STANDS_FOR(…)",
                    {{Diagnostic::Severity::note, replaces->where, "the inherited definition", "", {}}});
  }
}

}  // namespace modgen
