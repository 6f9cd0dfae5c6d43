// Classes and aliases of a spec, and the symbols of other specs that they derive from.
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include "generator/resolve/origins.h"
#include "generator/resolve/spec_reader.h"

namespace modgen {
namespace {

/// Whether a flattened class has the attribute, or means the same without it.
bool is_kept(const clang::Attr& attribute) {
  return attribute.isImplicit() || attribute.isInherited() ||
         llvm::isa<clang::AnnotateAttr, clang::FinalAttr, clang::WarnUnusedResultAttr, clang::UnusedAttr,
                   clang::DeprecatedAttr>(attribute);
}

/// Whether the type is `Its<…>`, which MODULAR_FAMILY defines.
bool names_its(clang::TemplateSpecializationTypeLoc loc) {
  const auto* its = loc.getTypePtr()->getTemplateName().getAsTemplateDecl();
  return its && llvm::isa<clang::TypeAliasTemplateDecl>(its) && its->getName() == "Its";
}

}  // namespace

void SpecReader::read_class(const clang::CXXRecordDecl& record, const Slice& slice) {
  if (!record.isThisDeclarationADefinition())
    return;  // a forward declaration: the order of output makes it unnecessary
  if (const clang::CXXRecordDecl* held = held_by(record)) {
    Symbol* symbol = specs_.symbol(held);
    if (!symbol || symbol->spec != &spec_)
      return specs_.reject(core(record), "TORCH_MODULE names a class that this spec does not define",
                           "define the Impl class before it");
    symbol->kind = Symbol::Kind::module_class;
    symbol->name = record.getName().str();
    symbol->holder = &record;
    return extend(*symbol, record, slice);
  }
  for (const clang::Attr* attribute : record.attrs())
    if (!is_kept(*attribute))
      specs_.reject(parsed_.span(manager_, attribute->getRange()), "modgen does not keep this attribute of a class",
                    "remove it, or put it on the members");
  Symbol& symbol = add(record, Symbol::Kind::plain_class, record.getName().str(), slice);
  symbol.record = &record;
  for (const clang::CXXBaseSpecifier& base : record.bases()) {
    const SourceSpan where = parsed_.span(manager_, base.getSourceRange());
    if (base.getAccessSpecifier() != clang::AS_public)
      return specs_.reject(where, "'" + symbol.name + "' hides its base", "write 'public' before the base", {},
                           base.getAccessSpecifierAsWritten() == clang::AS_none
                               ? std::vector<Edit>{{{where.file, where.begin, where.begin}, "public "}}
                               : std::vector<Edit>{});
    const clang::TypeLoc type = base.getTypeSourceInfo()->getTypeLoc();
    const auto both = arguments_of_both(type);
    Symbol* from = both ? type_symbol(both.getArgLoc(1).getTypeSourceInfo()->getTypeLoc()) : type_symbol(type);
    if (!from) continue;
    if (symbol.base)
      return specs_.reject(where, "'" + symbol.name + "' derives from two classes of specs",
                           "if both derive from one class, write Both<first, second> and call the second's "
                           "constructor; otherwise derive from one and make the other a member");
    symbol.base = symbol.replaced = from;
    if (!both) continue;
    symbol.under = type_symbol(both.getArgLoc(0).getTypeSourceInfo()->getTypeLoc());
    if (!symbol.under || !have_common_base(*symbol.under, *from)) {
      symbol.under = nullptr;
      specs_.reject(where, "the classes of Both<…> do not both derive from one class of a spec",
                    "derive from one and make the other a member");
    }
  }
  for (const auto* note : record.specific_attrs<clang::AnnotateAttr>())
    if (annotation_kind(note->getAnnotation()) == AnnotationKind::stands_for) read_stands_for(symbol, *note);
}

clang::TemplateSpecializationTypeLoc SpecReader::arguments_of_both(clang::TypeLoc loc) {
  loc = loc.getUnqualifiedLoc();
  if (const auto elaborated = loc.getAs<clang::ElaboratedTypeLoc>()) loc = elaborated.getNamedTypeLoc();
  const auto special = loc.getAs<clang::TemplateSpecializationTypeLoc>();
  if (!special || special.getNumArgs() != 2) return {};
  const auto* template_decl = special.getTypePtr()->getTemplateName().getAsTemplateDecl();
  return template_decl && template_decl->getQualifiedNameAsString() == "modular::Both"
             ? special
             : clang::TemplateSpecializationTypeLoc();
}

bool SpecReader::have_common_base(const Symbol& one, const Symbol& other) {
  const auto derives = [](const Symbol& symbol, const Symbol& from) {
    for (const Symbol* at = &symbol; at; at = at->base)
      if (at == &from) return true;
    return false;
  };
  if (derives(one, other) || derives(other, one)) return false;
  for (const Symbol* at = one.base; at; at = at->base)
    if (!at->is_alias() && derives(other, *at)) return true;
  return false;
}

void SpecReader::read_stands_for(Symbol& symbol, const clang::AnnotateAttr& note) {
  symbol.stands_for = true;
  for (const clang::Expr* argument : note.args()) {
    const clang::Expr* bare = argument->IgnoreParenImpCasts();
    if (const auto* constant = llvm::dyn_cast<clang::ConstantExpr>(bare))
      bare = constant->getSubExpr()->IgnoreParenImpCasts();
    const auto* size = llvm::dyn_cast<clang::UnaryExprOrTypeTraitExpr>(bare);
    if (size && size->isArgumentType()) symbol.replaced = type_symbol(size->getArgumentTypeInfo()->getTypeLoc());
  }
}

Symbol* SpecReader::type_symbol(clang::TypeLoc loc) {
  loc = loc.getUnqualifiedLoc();
  if (const auto elaborated = loc.getAs<clang::ElaboratedTypeLoc>()) loc = elaborated.getNamedTypeLoc();
  if (const auto alias = loc.getAs<clang::TypedefTypeLoc>()) return specs_.symbol(alias.getTypedefNameDecl());
  if (const auto special = loc.getAs<clang::TemplateSpecializationTypeLoc>(); special && names_its(special))
    return its_symbol(special);
  if (const auto* record = loc.getType()->getAsCXXRecordDecl()) return specs_.symbol(record);
  return nullptr;
}

Symbol* SpecReader::its_symbol(clang::TemplateSpecializationTypeLoc loc) {
  if (loc.getNumArgs() != 1 || !loc.getArgLoc(0).getTypeSourceInfo()) return nullptr;
  Symbol* inner = type_symbol(loc.getArgLoc(0).getTypeSourceInfo()->getTypeLoc());
  const auto* its = loc.getTypePtr()->getTemplateName().getAsTemplateDecl();
  const auto* space = its ? llvm::dyn_cast<clang::NamespaceDecl>(its->getDeclContext()) : nullptr;
  Spec* family = space ? specs_.of_namespace(space) : nullptr;
  if (!inner || !family || family == &spec_) return inner;
  return inferred_in(*family, *inner, parsed_.span(manager_, loc.getSourceRange()));
}

Symbol* SpecReader::inferred_in(Spec& family, Symbol& inner, SourceSpan where) {
  if (&family == inner.spec) return &inner;
  Symbol* base = &inner;
  if (Spec* next = only_base(family); next && next != inner.spec && next->sees(*inner.spec)) {
    base = inferred_in(*next, inner, where);
  }
  const std::string prefix = prefix_given(family, *base->spec);
  if (Symbol* declared = covering(family, *base, prefix)) {
    if (declared->is_alias()) return declared;  // nothing differs, and it is the same class in C++
    specs_.reject(where,
                  "family '" + family.name + "' declares '" + declared->name + "' instead of '" + inner.name + "'",
                  "write " + family.name + "::" + declared->record->getName().str(),
                  {{Diagnostic::Severity::note, declared->where, "the declaration", "", {}}},
                  {{where, declared->record->getName().str()}});
    return &inner;
  }
  auto inferred = std::make_unique<Symbol>();
  inferred->kind = base->kind;
  inferred->name = renamed_word(base->name, base->spec->names, names_with(family, prefix));
  inferred->spec = &family;
  inferred->base = inferred->replaced = base;
  inferred->where = base->where;
  specs_.symbols_.push_back(std::move(inferred));
  return specs_.symbols_.back().get();
}

Spec* SpecReader::only_base(const Spec& family) {
  Spec* only = nullptr;
  for (const Symbol* symbol : family.symbols) {
    if (!symbol->base || symbol->base->spec == &family) continue;
    if (only && only != symbol->base->spec) return nullptr;
    only = symbol->base->spec;
  }
  return only;
}

void SpecReader::read_alias(const clang::TypeAliasDecl& alias, const Slice& slice) {
  Symbol* target = type_symbol(alias.getTypeSourceInfo()->getTypeLoc());
  std::string name = alias.getName().str();
  if (!target || !target->is_class() || target->spec == &spec_) {
    if (!target && read_library_alias(alias, slice)) return;
    add(alias, Symbol::Kind::value, name, slice);
    return;
  }
  // `using XImpl = base::YImpl` next to `using X = base::Y` is the same class.
  const bool impl = target->kind == Symbol::Kind::module_class &&
                    alias.getUnderlyingType()->getAsCXXRecordDecl() == target_record(*target);
  if (impl) {
    if (name.size() < 5 || name.substr(name.size() - 4) != "Impl")
      return specs_.reject(core(alias), "the alias of a module's class has to end in Impl",
                           "name it '" + name + "Impl', or alias the holder", {},
                           {{parsed_.token(manager_, alias.getLocation()), name + "Impl"}});
    name.resize(name.size() - 4);
  }
  Symbol* symbol = named(name);
  if (symbol && symbol->is_alias()) {
    extend(*symbol, alias, slice);
  } else {
    symbol = &add(alias, target->kind, name, slice);
    symbol->base = symbol->replaced = target;
  }
  symbol->aliases.push_back(&alias);
}

bool SpecReader::read_library_alias(const clang::TypeAliasDecl& alias, const Slice& slice) {
  const clang::CXXRecordDecl* record = alias.getUnderlyingType()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition()) return false;
  constexpr std::string_view kImpl = "Impl";
  std::string name = alias.getName().str(), type = record->getQualifiedNameAsString();
  std::string library(
      parsed_.sources.text(parsed_.span(manager_, alias.getTypeSourceInfo()->getTypeLoc().getSourceRange())));
  if (!held_by(*record)) {
    const bool is_impl =
        name.ends_with(kImpl) && library.ends_with(kImpl) && derives_from(*record, "torch::nn::Module");
    if (!is_impl) return false;
    name.resize(name.size() - kImpl.size());
    library.resize(library.size() - kImpl.size());
    type.resize(type.size() - kImpl.size());
  }
  Symbol* symbol = named(name);
  if (symbol && symbol->library_type == type) {
    extend(*symbol, alias, slice);
  } else {
    Symbol& one = add(alias, Symbol::Kind::value, name, slice);
    one.library = library;
    one.library_type = type;
  }
  return true;
}

const clang::CXXRecordDecl* SpecReader::target_record(const Symbol& symbol) {
  const Symbol* at = &symbol;
  while (at && !at->record) at = at->base;
  return at ? at->record : nullptr;
}

}  // namespace modgen
