#include "generator/validate/counterparts.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <cctype>

#include "generator/flatten/family.h"

namespace modgen {
namespace {

std::string without_arguments(std::string name) {
  std::string result;
  int depth = 0;
  for (const char c : name) {
    depth += c == '<';
    if (depth == 0) result += c;
    depth -= c == '>';
  }
  return result;
}

bool are_redeclarations(const clang::NamedDecl& one, const clang::NamedDecl& other) {
  const clang::FunctionDecl *function = one.getAsFunction(), *other_function = other.getAsFunction();
  return function && other_function && function->getCanonicalDecl() == other_function->getCanonicalDecl();
}

}  // namespace

Counterparts::Counterparts(const Family& family, const Fragment& text, uint32_t file)
    : family_(family), text_(text), file_(file) {
  for (const auto& entity : family.entities()) {
    entities_[entity->name] = entity.get();
    const Level& first = entity->levels.front();
    if (!first.symbol->signature.text.empty())
      entities_[key(*first.symbol->decls.front()->getAsFunction(), first, *entity)] = entity.get();
    for (const Level& level : entity->levels) {
      for (const clang::NamedDecl* decl : level.symbol->decls) add(*decl);
      if (level.symbol->record) add(*level.symbol->record);
    }
  }
}

/// Adds a declaration and those inside it.
void Counterparts::add(const clang::Decl& decl) {
  if (decl.isImplicit()) return;
  if (const auto* function_template = llvm::dyn_cast<clang::FunctionTemplateDecl>(&decl))
    add(*function_template->getTemplatedDecl());
  if (const auto* granted = llvm::dyn_cast<clang::FriendDecl>(&decl); granted && granted->getFriendDecl())
    return add(*granted->getFriendDecl());
  if (const auto* named = llvm::dyn_cast<clang::NamedDecl>(&decl); named && named->getDeclName()) {
    const SourceSpan where = locate(named->getLocation());
    declared_[{where.file, where.begin}] = named;
  }
  // The names of templates are those of their patterns.
  if (const auto* pattern = llvm::dyn_cast<clang::TemplateDecl>(&decl);
      pattern && pattern->getTemplatedDecl() && !llvm::isa<clang::FunctionTemplateDecl>(decl))
    return add(*pattern->getTemplatedDecl());
  if (!llvm::isa<clang::RecordDecl, clang::EnumDecl>(decl)) return;
  for (const clang::Decl* inner : llvm::cast<clang::DeclContext>(&decl)->decls()) add(*inner);
}

const clang::NamedDecl* Counterparts::origin(const clang::NamedDecl& flattened) const {
  const SourceSpan where = locate(flattened.getLocation());
  if (where.file != file_) return nullptr;
  const SourceSpan from = text_.origin(where.begin);
  const auto found = declared_.find({from.file, from.begin});
  return found == declared_.end() ? nullptr : found->second;
}

SourceSpan Counterparts::origin(clang::SourceLocation flattened) const {
  const SourceSpan where = locate(flattened);
  return where.file == file_ ? text_.origin(where.begin) : SourceSpan{};
}

const Entity* Counterparts::entity(const clang::NamedDecl& flattened) const {
  const auto* function = llvm::dyn_cast<clang::FunctionDecl>(&flattened);
  const Entity& any = *family_.entities().front();
  const std::string name = function && function->isOverloadedOperator() ? key(*function, any.levels.front(), any)
                                                                        : flattened.getNameAsString();
  auto found = entities_.find(name);
  if (found == entities_.end() && name.ends_with("Impl")) found = entities_.find(name.substr(0, name.size() - 4));
  return found == entities_.end() ? nullptr : found->second;
}

std::string Counterparts::key(const clang::FunctionDecl& instance, const Level& level, const Entity& user) const {
  const clang::FunctionDecl* pattern = instance.getTemplateInstantiationPattern();
  const clang::FunctionDecl& function = pattern ? *pattern : instance;
  return function.getNameAsString() + "(" + strip(family_.parameter_types(function, level, user)) + ")";
}

Context Counterparts::context(const Entity& entity, const clang::Decl& origin) const {
  const SourceSpan where = locate(origin.getLocation());
  for (const Level& level : entity.levels)
    for (const Slice* slice : level.symbol->slices)
      if (slice->whole.contains(where)) return {&entity, &level};
  return {&entity, &entity.levels.front()};
}

bool Counterparts::is_meant(const clang::NamedDecl& flattened, const clang::NamedDecl& named, const Context& context,
                            bool exactly) const {
  if (flattened.getCanonicalDecl() == named.getCanonicalDecl()) return true;
  const auto* pattern = llvm::cast<clang::NamedDecl>(named.getCanonicalDecl());
  if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(&named))
    if (const auto* function_template = function->getTemplateInstantiationPattern())
      pattern = function_template->getCanonicalDecl();
  const SourceSpan where = locate(pattern->getLocation());
  if (where.file == 0 || !family_.specs().of_file(where.file)) {
    // A library's declaration. Instances of a template with other arguments differ in their types, which are compared
    // elsewhere.
    return without_arguments(flattened.getQualifiedNameAsString()) ==
           without_arguments(named.getQualifiedNameAsString());
  }
  const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(named.getDeclContext());
  const auto* flattened_owner = llvm::dyn_cast<clang::CXXRecordDecl>(flattened.getDeclContext());
  const Symbol* symbol = owner ? family_.specs().symbol(owner) : nullptr;
  const Entity* user = flattened_owner ? entity(*flattened_owner) : nullptr;
  if (owner && owner->isLambda()) return flattened_owner && flattened_owner->isLambda();
  // Declared implicitly by Clang, or by TORCH_MODULE.
  if (owner && !symbol && named.isImplicit()) {  // of a class inside another one
    const clang::NamedDecl* from = flattened_owner && flattened.isImplicit() ? origin(*flattened_owner) : nullptr;
    return from && from->getCanonicalDecl() == owner->getCanonicalDecl() &&
           flattened.getDeclName() == named.getDeclName();
  }
  if (owner && (named.isImplicit() || named.getLocation().isMacroID()))
    return symbol && user && flattened.getDeclName() == named.getDeclName() && belongs_to(*user, *symbol, context);
  const clang::NamedDecl* flattened_pattern = &flattened;
  if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(&flattened))
    if (const auto* function_template = function->getTemplateInstantiationPattern())
      flattened_pattern = function_template;
  const clang::NamedDecl* from = origin(*flattened_pattern);
  if (from && (locate(from->getLocation()) == where || are_redeclarations(*from, *pattern))) return true;
  if (exactly) return false;
  // A class of libtorch or of the contract that replaces a class of a spec, and members that both declare.
  if (symbol && !from && !family_.library_type(*symbol, *context.level).empty())
    return flattened.getDeclName() == named.getDeclName() ||
           (llvm::isa<clang::CXXConstructorDecl>(flattened) && llvm::isa<clang::CXXConstructorDecl>(named));
  if (named.isTemplateParameter()) return flattened.getDeclName() == named.getDeclName();
  if (!from) return false;
  if (!symbol) return flattened.getDeclContext()->isFileContext() && replaces(*from, *pattern, context);
  if (!user || !belongs_to(*user, *symbol, context)) return false;
  // The family's replacement: the declaration of that name in a level nearer to the family.
  if (from->getDeclName() != named.getDeclName() &&
      flattened.getNameAsString() != family_.member_name(named.getNameAsString(), *symbol, *context.level, *user))
    return false;
  // An additional overload is not a replacement, nor is the one that hides another one.
  if (user->hidden.contains(pattern)) return false;
  const bool is_kept = std::ranges::any_of(flattened_owner->decls(), [&](const clang::Decl* decl) {
    if (const auto* function_template = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl))
      decl = function_template->getTemplatedDecl();
    const auto* member = llvm::dyn_cast<clang::NamedDecl>(decl);
    const clang::NamedDecl* member_origin =
        member && member->getDeclName() == flattened.getDeclName() ? origin(*member) : nullptr;
    return member_origin && locate(member_origin->getLocation()) == where;
  });
  if (is_kept) return false;
  // A class of that name which does not derive from the base's stands for it in inherited code only.
  const bool derives = std::ranges::any_of(user->levels, [&](const Level& level) { return level.symbol == symbol; });
  const Spec* const here = context.level->symbol->spec;
  const Spec* const own = user->levels.front().symbol->spec;
  if (!derives && (here == own || here->sees(*own))) return false;
  for (const Level& level : user->levels) {
    if (level.symbol == symbol) return false;
    if (level.symbol->record == from->getDeclContext()) return true;
  }
  return false;
}

bool Counterparts::replaces(const clang::NamedDecl& own, const clang::NamedDecl& base, const Context& context) const {
  const Specs& specs = family_.specs();
  const Symbol *here = specs.symbol(&own), *there = specs.symbol(&base);
  const clang::FunctionDecl *function = own.getAsFunction(), *other = base.getAsFunction();
  const auto same_types = [&] {
    return function && other &&
           family_.parameter_types(*function, *context.level, *context.entity) ==
               family_.parameter_types(*other, *context.level, *context.entity);
  };
  // Inherited code means the replacement. Code that sees both functions or variables has chosen the base's, of which
  // the replacement may be made.
  if (here && there) {
    const bool sees_both = context.level->symbol->spec->sees(*here->spec);
    const bool are_variables = llvm::isa<clang::VarDecl>(own) && llvm::isa<clang::VarDecl>(base);
    return here != there && !(sees_both && ((function && other) || are_variables));
  }
  const auto befriending = [&](const clang::NamedDecl& decl) {
    const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl.getLexicalDeclContext());
    return record ? specs.symbol(record) : nullptr;
  };
  const Symbol *class_here = befriending(own), *class_there = befriending(base);
  return class_here && class_there && class_here != class_there && own.getDeclName() == base.getDeclName() &&
         !context.level->symbol->spec->sees(*class_here->spec) && same_types();
}

const clang::VarDecl* Counterparts::constant(const clang::Expr& spec, const Context& context) const {
  const clang::ValueDecl* named = nullptr;
  if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(&spec)) named = member->getMemberDecl();
  if (const auto* reference = llvm::dyn_cast<clang::DeclRefExpr>(&spec)) named = reference->getDecl();
  const auto* owner = named ? llvm::dyn_cast<clang::CXXRecordDecl>(named->getDeclContext()) : nullptr;
  const Symbol* symbol = owner ? family_.specs().symbol(owner) : nullptr;
  if (!symbol) return nullptr;
  const auto config = entities_.find(symbol == context.level->symbol ? context.entity->name
                                                                     : family_.name_for(*symbol, *context.level));
  return config == entities_.end() ? nullptr : folded_constant(*config->second, named->getNameAsString());
}

/// Whether `user` is the class that `symbol` refers to in code of `context`.
bool Counterparts::belongs_to(const Entity& user, const Symbol& symbol, const Context& context) const {
  if (std::any_of(user.levels.begin(), user.levels.end(), [&](const Level& one) { return one.symbol == &symbol; }))
    return true;
  return family_.name_for(symbol, *context.level) == user.name;
}

std::string Counterparts::type_of_spec(clang::QualType type, const Context& context) const {
  const clang::QualType canonical = type.getNonReferenceType().getCanonicalType().getUnqualifiedType();
  std::string& text = spec_types_[{canonical.getAsOpaquePtr(), context.level}];
  if (text.empty()) text = strip(family_.type_text(canonical, *context.level, *context.entity));
  return text;
}

std::string Counterparts::type_of_flattened(clang::QualType type) const {
  const clang::QualType canonical = type.getNonReferenceType().getCanonicalType().getUnqualifiedType();
  std::string& text = flattened_types_[canonical.getAsOpaquePtr()];
  if (text.empty()) {
    const Entity& any = *family_.entities().front();
    text = strip(family_.type_text(canonical, any.levels.front(), any));
  }
  return text;
}

std::string Counterparts::strip(std::string type) const {
  const std::string space = "modular::flattened::" + family_.spec().name + "::";
  for (size_t at; (at = type.find(space)) != std::string::npos;) type.erase(at, space.size());
  // A lambda is of the same type wherever its code is, in a function or in a class.
  for (size_t at = 0; (at = type.find("::(lambda", at)) != std::string::npos;) {
    size_t begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(type[begin - 1])) || type[begin - 1] == '_' ||
                         type[begin - 1] == ':'))
      --begin;
    type.erase(begin, at + 2 - begin);
    at = begin;
  }
  // The location of a lambda or an unnamed class is not part of its type.
  static const std::string kinds[] = {"(lambda", "(unnamed struct", "(unnamed class", "(unnamed union",
                                      "(unnamed enum"};
  for (const std::string& kind : kinds)
    for (size_t at = 0; (at = type.find(kind + " at ", at)) != std::string::npos; ++at)
      type.erase(at + kind.size(), type.find(')', at) - at - kind.size());
  return type;
}

}  // namespace modgen
