// Renders the text of a family: spec text with renamed references, without macros and directives.
#include <clang/AST/Decl.h>
#include <clang/AST/DeclCXX.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <tuple>

#include "generator/flatten/family.h"
#include "generator/resolve/object_types.h"
#include "generator/resolve/specs.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// Whether the string at `where` is the name of a registered member, not prose.
bool names_member(const std::vector<Reference>& references, SourceSpan where) {
  auto at = std::lower_bound(references.begin(), references.end(), where.begin,
                             [](const Reference& reference, uint32_t begin) { return reference.where.begin < begin; });
  return at != references.end() && at->where == where && at->kind == Reference::Kind::registered;
}

constexpr std::string_view kOuter = "modular::";  // before a family's namespace

/// Whether the qualifier at `where` begins a using-declaration, which has to have one.
bool begins_using(const std::string& text, SourceSpan where) {
  constexpr std::string_view kUsing = "using";
  const bool is_full =
      where.begin >= kOuter.size() && text.compare(where.begin - kOuter.size(), kOuter.size(), kOuter) == 0;
  if (is_full) where.begin -= static_cast<uint32_t>(kOuter.size());
  const size_t last = where.begin == 0 ? std::string::npos : text.find_last_not_of(" \t\n", where.begin - 1);
  return last != std::string::npos && last + 1 >= kUsing.size() &&
         text.compare(last + 1 - kUsing.size(), kUsing.size(), kUsing) == 0;
}

/// Whether the type that ends at `end` is that of a reference, for which a declaration of the class is enough.
bool names_reference(const std::string& text, uint32_t end) {
  const size_t next = text.find_first_not_of(' ', end);
  return next != std::string::npos && text[next] == '&';
}

/// The names in the code of `user` that is being rendered.
Named& named_by(Entity& user) { return user.inside ? user.inside->named : user.around; }

/// Adds the classes, configs too, that a value of that type is or contains.
void add_classes_of_value(clang::QualType type, std::vector<const clang::CXXRecordDecl*>& classes) {
  const clang::CXXRecordDecl* record = type.isNull() ? nullptr : type->getAsCXXRecordDecl();
  if (!record) return;  // also of references and pointers
  classes.push_back(record);
  if (const auto* special = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(record))
    for (const clang::QualType one : get_types(special->getTemplateArgs().asArray()))
      add_classes_of_value(one, classes);
}

/// The classes of specs that a function takes or returns as values.
std::vector<const clang::CXXRecordDecl*> get_values(const clang::FunctionDecl& function) {
  std::vector<const clang::CXXRecordDecl*> classes;
  add_classes_of_value(function.getReturnType(), classes);
  for (const clang::ParmVarDecl* parameter : function.parameters()) add_classes_of_value(parameter->getType(), classes);
  return classes;
}

/// What declares `target`: the enum of an enumerator, otherwise itself.
const clang::Decl* get_declared(const clang::NamedDecl& target) {
  const auto* enumerator = llvm::dyn_cast<clang::EnumConstantDecl>(&target);
  return enumerator ? llvm::cast<clang::Decl>(enumerator->getDeclContext()) : &target;
}

}  // namespace

/// The name in this family of `registered`, a member that code of `level` registers.
std::string Family::registered_text(const std::string& registered, const Level& level, const Entity& user) const {
  for (const Symbol* symbol = level.symbol; symbol; symbol = symbol->base)
    if (symbol->declares_field(registered)) return "\"" + member_name(registered, *symbol, level, user) + "\"";
  return "\"" + registered + "\"";
}

std::string Family::message_text(const std::string& text, const Level& level, const Entity& user) const {
  const std::string prose =
      renamed_prose(text, /*is_comment=*/false, level.symbol->spec->names, names_with(spec_, level.prefix));
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  std::string result;
  for (size_t at = 0; at < prose.size();) {
    size_t end = at;
    while (end < prose.size() && is_word(prose[end])) ++end;
    std::string word = prose.substr(at, end - at);
    for (const Symbol* symbol = word.empty() ? nullptr : level.symbol; symbol; symbol = symbol->base)
      if (symbol->declares_field(word)) {
        word = member_name(word, *symbol, level, user);
        break;
      }
    result += word;
    if (end < prose.size()) result += prose[end++];
    at = end;
  }
  return result;
}

std::string Family::reference_text(const Reference& reference, const Level& level, Entity& user) {
  const std::string spelled(parsed().sources.text(reference.where));
  if (const clang::FunctionDecl* function = reference.target->getAsFunction())
    for (const clang::CXXRecordDecl* record : get_values(*function))
      if (const Symbol* symbol = specs_.symbol(record)) named_by(user).values.insert(name_for(*symbol, level));
  if (reference.kind == Reference::Kind::marker) return "";
  if (reference.kind == Reference::Kind::config_flag) return flag_text(reference, level, user);
  if (reference.kind == Reference::Kind::remake)
    return reference.registration.function + "(" + registered_text(reference.registration.name, level, user) + ",";
  if (reference.kind == Reference::Kind::space) {
    const auto* space = llvm::cast<clang::NamespaceDecl>(reference.target);
    if (specs_.of_namespace(space) && reported_.insert({reference.where.file, reference.where.begin}).second)
      specs_.reject(reference.where, "modgen does not follow another name of a family's namespace in a function",
                    "write '" + spelled + "::' before each name");
    return spelled;
  }
  if (reference.kind == Reference::Kind::qualifier) {
    const auto* space = llvm::cast<clang::NamespaceDecl>(reference.target);
    return specs_.of_namespace(space) ? "" : spelled;
  }
  if (reference.kind == Reference::Kind::registered) {
    return spelled[0] == '"' ? registered_text(spelled.substr(1, spelled.size() - 2), level, user) : spelled;
  }
  if (reference.kind == Reference::Kind::member) {
    const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(reference.target->getDeclContext());
    const Symbol* symbol = owner ? specs_.symbol(owner) : nullptr;
    if (!symbol || reference.in_macro_body) return spelled;
    // A base of the object's class is part of what that class becomes.
    const bool is_own = reference.of_this && std::any_of(user.levels.begin(), user.levels.end(),
                                                         [&](const Level& one) { return one.symbol == symbol; });
    const Symbol* object = reference.object ? specs_.symbol(reference.object) : nullptr;
    const Symbol* base = object;
    while (base && base != symbol) base = base->base;
    Entity* const entity = is_own ? &user : meant(base ? *object : *symbol, level, user);
    uses_.push_back({entity, spelled, reference.where});
    if (entity != &user) named_by(user).complete.insert(entity);
    return llvm::isa<clang::FieldDecl>(reference.target) ? member_name(spelled, *symbol, level, *entity) : spelled;
  }
  const auto* enumerator = llvm::dyn_cast<clang::EnumConstantDecl>(reference.target);
  const Symbol* symbol = specs_.symbol(get_declared(*reference.target));
  if (!symbol) return spelled;
  Entity* const entity = meant(*symbol, level, user);
  if (entity != &user) {
    if (std::find(user.needs.begin(), user.needs.end(), entity) == user.needs.end()) user.needs.push_back(entity);
    const bool is_defined_before =
        symbol->where.file != reference.where.file || symbol->where.begin < reference.where.begin;
    named_by(user).all.insert(entity);
    if (is_defined_before && !names_reference(file_text(reference.where.file), reference.where.end))
      named_by(user).complete.insert(entity);
  }
  if (symbol->is_lookup || enumerator) return spelled;
  const std::string target_name =
      reference.target->getDeclName().isIdentifier() ? reference.target->getName().str() : spelled;
  const bool is_impl =
      (symbol->kind == Symbol::Kind::module_class || !symbol->library.empty()) && target_name != symbol->name;
  const std::string text = symbol->kind == Symbol::Kind::function && !reference.target->getDeclName().isIdentifier()
                               ? spelled
                               : entity->name + (is_impl ? "Impl" : "");
  if (!reference.in_macro_body) return text;
  if (text != target_name && spelled.rfind("TORCH_MODULE", 0) != 0 &&
      reported_.insert({reference.where.file, reference.where.begin}).second)
    specs_.reject(
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
  for (Replacement& one : directives_and_macros(span))
    if (!replaced(one.where)) replacements.push_back(std::move(one));
  const auto& references = from.references;
  auto next =
      std::lower_bound(references.begin(), references.end(), span.begin,
                       [](const Reference& reference, uint32_t begin) { return reference.where.begin < begin; });
  for (; next != references.end() && next->where.begin < span.end; ++next) {
    if (next->in_macro_body) reference_text(*next, level, user);  // called for its errors
    if (replaced(next->where) || (!edits.empty() && next->where.begin < edits.back().where.end)) continue;
    if (const auto argument = arguments.texts.find(next->target); argument != arguments.texts.end()) {
      edits.push_back({next->where, argument->second});
      continue;
    }
    cause_ = next->where.file == spec_.file ? next->where : user.cause;
    std::string after = reference_text(*next, level, user);
    const bool is_renamed = after != parsed().sources.text(next->where);
    if (next->of_this && (arguments.hidden.count(after) || (is_renamed && names_around(user).variables.count(after))))
      after = "this->" + after;
    if (is_hidden(*next, next == references.begin() ? nullptr : &*(next - 1), after, arguments, user))
      after = spec_.name + "::" + after;
    if (after == parsed().sources.text(next->where)) continue;
    Fragment changed;
    changed.add(after, next->where);
    // `modular::llama::x`: the outer qualifier goes with the inner one.
    if (after.empty() && next->kind == Reference::Kind::qualifier) {
      SourceSpan whole = next->where;
      if (whole.begin >= kOuter.size() && text.compare(whole.begin - kOuter.size(), kOuter.size(), kOuter) == 0)
        whole.begin -= kOuter.size();
      if (begins_using(text, next->where)) changed.add(spec_.name + "::", next->where);
      edits.push_back({whole, changed});
      continue;
    }
    edits.push_back({next->where, changed});
  }
  if (&from != &spec_) {
    for (const RawToken& token : raw_tokens(text, span.begin, span.end)) {
      if (token.kind != RawToken::Kind::comment && token.kind != RawToken::Kind::string) continue;
      const SourceSpan where{span.file, token.begin, token.end};
      if (replaced(where) || names_member(references, where)) continue;
      if (token.kind == RawToken::Kind::string && !is_message(where)) continue;
      const std::string before(parsed().sources.text(where));
      const std::string after = token.kind == RawToken::Kind::string
                                    ? message_text(before, level, user)
                                    : renamed_prose(before, true, from.names, names_with(spec_, level.prefix));
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
    if (edit.where.begin < at) continue;  // inside an edit that was applied
    result.add_verbatim(std::string_view(text).substr(at, edit.where.begin - at), {span.file, at, edit.where.begin});
    result.append(edit.text);
    at = edit.where.end;
  }
  if (at < span.end) result.add_verbatim(std::string_view(text).substr(at, span.end - at), {span.file, at, span.end});
  return result;
}

/// Names that the class or function `user` declares: members, and variables of functions.
const Family::MemberNames& Family::names_around(const Entity& user) {
  const auto [known, added] = member_names_.try_emplace(&user);
  auto& [members, variables] = known->second;
  for (const Level& level : user.levels) {
    if (!added || !level.symbol->record) continue;
    for (const clang::Decl* decl : level.symbol->record->decls()) {
      if (const auto* values = llvm::dyn_cast<clang::EnumDecl>(decl); values && !values->isScoped())
        for (const clang::EnumConstantDecl* value : values->enumerators()) members.insert(value->getName().str());
      const auto* member = llvm::dyn_cast<clang::NamedDecl>(decl);
      if (!member || member->isImplicit() || !member->getDeclName().isIdentifier()) continue;
      members.insert(member_name(member->getName().str(), *level.symbol, level, user));
      if (const auto* function = decl->getAsFunction()) variables.merge(names_declared(Specs::defined(*function)));
    }
    for (const clang::CXXConstructorDecl* constructor : level.symbol->record->ctors())
      variables.merge(names_declared(Specs::defined(*constructor)));
  }
  if (added)
    for (const clang::NamedDecl* decl : user.levels.front().symbol->decls)
      if (const auto* function = decl->getAsFunction()) variables.merge(names_declared(Specs::defined(*function)));
  return known->second;
}

/// Whether `name`, the new text of a reference to a function, constant, enumerator or class, would refer to a member of
/// the class or to a variable instead. `before` is the reference before it.
bool Family::is_hidden(const Reference& reference, const Reference* before, const std::string& name,
                       const Substitution& arguments, Entity& user) {
  if (reference.kind != Reference::Kind::name || reference.in_macro_body) return false;
  const Symbol* symbol = specs_.symbol(get_declared(*reference.target));
  if (!symbol) return false;
  // The spec qualifies the name with its family, so a variable may have the same name.
  const bool is_qualified =
      before && before->kind == Reference::Kind::qualifier && before->where.end == reference.where.begin;
  if (is_qualified && begins_using(file_text(reference.where.file), before->where)) return false;  // stays qualified
  if (llvm::isa<clang::EnumConstantDecl>(reference.target) && !is_qualified) {
    const std::string& text = file_text(reference.where.file);
    const size_t last =
        reference.where.begin == 0 ? std::string::npos : text.find_last_not_of(" \t\n", reference.where.begin - 1);
    if (last != std::string::npos && text[last] == ':' && last > 0 && text[last - 1] == ':')
      return false;  // of its enum
  }
  const auto& [members, variables] = names_around(user);
  const bool is_declaration =
      parsed().token(specs_.manager(), reference.target->getLocation()).begin == reference.where.begin;
  // Of one function, so that its qualified name means the same where arguments find others.
  const bool is_renamed = !is_declaration && symbol->decls.size() == 1 && name != user.name &&
                          name != parsed().sources.text(reference.where);
  if (symbol->names_class()) return members.count(name) != 0 || (is_renamed && variables.count(name) != 0);
  if (arguments.hidden.count(name)) return true;
  return members.count(name) != 0 || ((is_qualified || is_renamed) && variables.count(name) != 0);
}

/// Whether a string is a message for the user. Other strings are values that code may compare, and so are all where
/// code reads what an exception says.
bool Family::is_message(SourceSpan where) const {
  const std::vector<SourceSpan>& messages = specs_.of_file(where.file)->texts.messages;
  return !are_texts_read_ &&
         std::any_of(messages.begin(), messages.end(), [&](const SourceSpan& one) { return one.contains(where); });
}

/// Removes directives, because macros are defined once, at the top. Records and renames uses of macros.
std::vector<Replacement> Family::directives_and_macros(SourceSpan span) {
  std::vector<Replacement> edits;
  const std::string& text = file_text(span.file);
  const auto remove_line = [&](SourceSpan where) {
    if (!span.contains(where)) return;
    where.begin = static_cast<uint32_t>(text.rfind('#', where.begin));
    where.end = static_cast<uint32_t>(std::min(text.find('\n', where.end), text.size() - 1)) + 1;
    edits.push_back({where, Fragment()});
  };
  for (const MacroDefinition& macro : parsed().macros) remove_line(macro.text);
  for (const SourceSpan& undef : parsed().undefs) remove_line(undef);
  for (const MacroUse& use : parsed().macro_uses) {
    if (!span.contains(use.where)) continue;
    macros_.insert(use.macro);
    if (parsed().sources.text(use.where) != parsed().macros[use.macro].name) continue;  // in the body of another macro
    Fragment name;
    name.add(macro_name(use.macro), use.where);
    edits.push_back({use.where, name});
  }
  return edits;
}

/// Names macros like constants. Specs may define one name several times, each until its #undef; here, all definitions
/// hold to the end of the file, so that each has a name of its own.
void Family::name_macros() {
  const std::vector<MacroDefinition>& macros = parsed().macros;
  const auto from = [&](size_t index) { return specs_.of_file(macros[index].where.file); };
  std::vector<size_t> seen;  // this family's own first
  for (size_t index = 0; index < macros.size(); ++index)
    if (from(index) && spec_.sees(*from(index))) seen.push_back(index);
  std::stable_sort(seen.begin(), seen.end(), [&](size_t a, size_t b) {
    const auto position = [&](size_t index) {
      return std::tuple(from(index) != &spec_, std::string_view(from(index)->name), macros[index].where.begin);
    };
    return position(a) < position(b);
  });
  std::set<std::string> taken;
  const auto is_word = [&](const std::string& name) {
    return std::ranges::any_of(specs_.all(), [&](const auto& spec) {
      return spec_.sees(*spec) && file_text(spec->file).find(name) != std::string::npos;
    });
  };
  for (const size_t index : seen) {
    const std::string& written = macros[index].name;
    const std::string name = from(index) == &spec_ ? written : renamed_word(written, from(index)->names, spec_.names);
    std::string unique = name;
    for (int number = 2; !taken.insert(unique).second || (number > 2 && is_word(unique)); ++number)
      unique = name + "_" + std::to_string(number);
    macro_names_[index] = unique;
  }
}

std::string Family::macro_name(size_t index) const {
  const auto found = macro_names_.find(index);
  return found == macro_names_.end() ? parsed().macros[index].name : found->second;
}

/// `word`, an identifier in the text of `macro`, with this family's name if it is a macro's.
std::string Family::renamed_in(std::string word, const MacroDefinition& macro) {
  const std::string* name = nullptr;
  for (const auto& [index, other] : macro_names_) {
    const MacroDefinition& defined = parsed().macros[index];
    if (defined.name != word || defined.where.file != macro.where.file) continue;
    if (defined.where == macro.where) return other;
    if (name && *name != other)
      specs_.reject(macro.where, "macro '" + macro.name + "' names '" + word + "', of which there are several",
                    "give each of them another name",
                    {{Diagnostic::Severity::note, defined.where, "one of them", "", {}}});
    name = &other;
  }
  return name ? *name : word;
}

std::string Family::macro_definitions() {
  std::string result;
  for (const size_t index : macros_) {
    const MacroDefinition& macro = parsed().macros[index];
    const Spec* from = specs_.of_file(macro.where.file);
    const std::string& text = file_text(macro.text.file);
    result += "#define ";
    uint32_t at = macro.text.begin;
    for (const RawToken& token : raw_tokens(text, macro.text.begin, macro.text.end)) {
      result.append(text, at, token.begin - at);
      std::string word = text.substr(token.begin, token.end - token.begin);
      const bool is_comment = token.kind == RawToken::Kind::comment, is_text = token.kind == RawToken::Kind::string;
      if (from && from != &spec_ && (is_comment || (is_text && is_message({macro.text.file, token.begin, token.end}))))
        word = renamed_prose(word, is_comment, from->names, spec_.names);
      if (token.kind == RawToken::Kind::identifier)
        word = token.begin == macro.where.begin ? macro_name(index) : renamed_in(std::move(word), macro);
      result += word;
      at = token.end;
    }
    result += "\n";
  }
  return result.empty() ? "" : result + "\n";
}

void Family::write(Entity& entity) {
  if (entity.levels.front().symbol->is_class()) {
    entity.text = class_text(*this, entity);
    return;
  }
  for (const Slice* slice : entity.levels.front().symbol->slices) {
    const bool is_declaration = std::ranges::all_of(slice->decls, [&](const clang::Decl* decl) {
      const clang::FunctionDecl* function = decl->getAsFunction();
      return function && !function->isThisDeclarationADefinition() && function->getDefinition();
    });
    Fragment text = render(slice->whole, entity.levels.front(), entity);
    entity.text.append(text);
    entity.parts.push_back({is_declaration, slice, std::move(text)});
  }
}

}  // namespace modgen
