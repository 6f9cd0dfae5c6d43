#include "generator/resolve/read_spec.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <llvm/Support/ConvertUTF.h>

#include <algorithm>

#include "generator/resolve/prefixes.h"
#include "generator/source/edits.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

bool is_valid_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const llvm::UTF8*>(text.data());
  return llvm::isLegalUTF8String(&at, at + text.size());
}

}  // namespace

class SpecReader {
 public:
  SpecReader(Specs& specs, Spec& spec)
      : specs_(specs), spec_(spec), parsed_(specs.parsed()), manager_(specs.manager()) {}

  void read() {
    const std::string& text = parsed_.sources[spec_.file].text;
    if (!is_valid_utf8(text)) return specs_.reject({spec_.file, 0, 0}, "this spec is not UTF-8", "save it as UTF-8");
    if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string::npos)
      return specs_.reject({spec_.file, 0, 0}, "this spec has a byte order mark or a zero byte",
                           "save it as UTF-8 without them");
    find_namespace();
    read_head();
    if (!spec_.space) return;
    slice_namespace();
    for (const Slice& slice : spec_.slices) read_slice(slice);
    if (spec_.prefix.empty()) {
      specs_.reject(parsed_.token(manager_, spec_.space->getLocation()), "this spec does not name its family",
                    "begin its namespace with MODULAR_FAMILY(…), which names the prefix of its classes");
    }
    for (const Symbol* symbol : spec_.symbols)
      if (symbol->is_class() && !spec_.prefix.empty() && !symbol->name.starts_with(spec_.prefix))
        specs_.reject(symbol->where,
                      "class '" + symbol->name + "' does not begin with its family's prefix '" + spec_.prefix + "'",
                      "name it '" + spec_.prefix + symbol->name + "'", {},
                      rename_class(parsed_, spec_.file, symbol->name, spec_.prefix + symbol->name));
    for (const MacroDefinition& macro : parsed_.macros)
      if (macro.where.file == spec_.file && !macro.undefined)
        specs_.reject(macro.where, "macro '" + macro.name + "' outlives its spec and would leak into others",
                      "write a constant or a function, or end the spec with #undef " + macro.name, {},
                      append_line(parsed_, spec_.file, "#undef " + macro.name));
  }

 private:
  SourceSpan core(const clang::Decl& decl) const { return parsed_.span(manager_, decl.getSourceRange()); }

  void find_namespace() {
    for (clang::Decl* decl : parsed_.top_level) {
      if (core(*decl).file != spec_.file || llvm::isa<clang::EmptyDecl>(decl)) continue;
      // Template instantiations have no source text.
      if (const auto* function = decl->getAsFunction(); function && function->isTemplateInstantiation()) continue;
      if (llvm::isa<clang::ClassTemplateSpecializationDecl>(decl)) continue;
      const auto* outer = llvm::dyn_cast<clang::NamespaceDecl>(decl);
      if (!outer || outer->getName() != "modular") {
        reject_outside_namespace(*decl);
        continue;
      }
      for (clang::Decl* inner : outer->decls()) {
        const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(inner);
        if (!space || space->getName() != spec_.name)
          reject_outside_namespace(*inner);
        else if (spec_.space)
          specs_.reject(core(*inner), "a spec opens its namespace once",
                        "move this into the first 'namespace modular::" + spec_.name + "'");
        else
          spec_.space = space;
      }
    }
    if (!spec_.space)
      specs_.reject({spec_.file, 0, 0}, "this spec declares nothing in namespace 'modular::" + spec_.name + "'",
                    "a spec's namespace has the name of its file");
  }

  void reject_outside_namespace(const clang::Decl& decl) {
    specs_.reject(core(decl), "this is outside of namespace 'modular::" + spec_.name + "'",
                  "a spec declares everything in the namespace that has the name of its file");
  }

  void read_head() {
    const std::string& text = parsed_.sources[spec_.file].text;
    constexpr std::string_view kPragma = "#pragma once";
    const uint32_t first = next_code(text, 0);
    if (text.compare(first, kPragma.size(), kPragma) == 0 || !parsed_.sources[spec_.file].guard.empty())
      spec_.file_comment = text.substr(0, first);
    else if (text.find(kPragma) != std::string::npos)
      specs_.reject({spec_.file, first, first}, "this comes before #pragma once",
                    "begin with a comment on the family, followed by #pragma once");
    else
      specs_.reject({spec_.file, 0, 0}, "this spec may be read twice", "put #pragma once after its opening comment", {},
                    add_pragma_once(parsed_, spec_.file));
    const auto condition_around = [&](uint32_t offset) -> const Condition* {
      for (const Condition& condition : parsed_.conditions)
        if (condition.where.contains({spec_.file, offset, offset})) return &condition;
      return nullptr;
    };
    for (const Inclusion& inclusion : parsed_.inclusions) {
      if (inclusion.file != spec_.file) continue;
      if (spec_.space && inclusion.offset > parsed_.token(manager_, spec_.space->getLocation()).begin)
        specs_.reject({spec_.file, inclusion.offset, inclusion.offset},
                      "an include after the beginning of the namespace", "move it above the namespace");
      const bool guarded = condition_around(inclusion.offset) != nullptr;
      if (Spec* other = specs_.of_file(inclusion.target)) {
        spec_.includes.push_back(other);
        if (guarded)
          specs_.reject({spec_.file, inclusion.offset, inclusion.offset}, "a spec is included under a condition",
                        "include it unconditionally");
      } else if (inclusion.spelling != "\"modular/modular.h\"" && !guarded) {
        spec_.libraries.push_back(inclusion.spelling);
      }
    }
    for (const Condition& condition : parsed_.conditions) {
      if (condition.where.file != spec_.file) continue;
      const uint32_t hash = static_cast<uint32_t>(text.rfind('#', condition.where.begin));
      if (spec_.space && condition.where.begin > parsed_.token(manager_, spec_.space->getLocation()).begin)
        specs_.reject({spec_.file, hash, hash}, "a preprocessor condition in a spec: modgen only sees one branch",
                      "use `if constexpr`, or limit conditions to includes");
      else
        spec_.guarded.push_back(text.substr(hash, condition.where.end - hash));
    }
  }

  void slice_namespace() {
    const std::string& text = parsed_.sources[spec_.file].text;
    const SourceSpan close = parsed_.token(manager_, spec_.space->getRBraceLoc());
    // In `namespace modular::gemma {` the brace follows the name.
    const uint32_t open = next_code(text, parsed_.token(manager_, spec_.space->getLocation()).end);
    const uint32_t begin = after_line_comment(text, open + 1);
    std::vector<clang::Decl*> decls(spec_.space->decls_begin(), spec_.space->decls_end());
    spec_.slices = specs_.slices({spec_.file, begin, close.begin}, decls);
  }

  Symbol& add(const clang::NamedDecl& decl, Symbol::Kind kind, std::string name, const Slice& slice) {
    auto symbol = std::make_unique<Symbol>();
    symbol->kind = kind;
    symbol->name = std::move(name);
    symbol->spec = &spec_;
    symbol->where = parsed_.token(manager_, decl.getLocation());
    spec_.symbols.push_back(symbol.get());
    specs_.symbols_.push_back(std::move(symbol));
    extend(*spec_.symbols.back(), decl, slice);
    return *spec_.symbols.back();
  }

  void extend(Symbol& symbol, const clang::NamedDecl& decl, const Slice& slice) {
    if (symbol.slices.empty() || symbol.slices.back() != &slice) symbol.slices.push_back(&slice);
    symbol.decls.push_back(&decl);
    specs_.by_decl_[decl.getCanonicalDecl()] = &symbol;
  }

  Symbol* named(std::string_view name) {
    for (Symbol* symbol : spec_.symbols)
      if (symbol->name == name) return symbol;
    return nullptr;
  }

  void read_slice(const Slice& slice) {
    for (clang::Decl* decl : slice.decls) {
      if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl)) {
        for (const auto* note : variable->specific_attrs<clang::AnnotateAttr>())
          if (note->getAnnotation() == "modular.family") {
            spec_.family = slice.core;
            read_names(*variable);
            return;
          }
      }
      if (made_by_macro(*decl)) continue;
      if (const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl)) {
        read_class(*record, slice);
      } else if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl)) {
        if (function->isCXXClassMember())
          read_definition(*function);
        else if (Symbol* symbol = named(function->getNameAsString()))
          extend(*symbol, *function, slice);
        else
          add(*function, Symbol::Kind::function, function->getNameAsString(), slice);
      } else if (const auto* alias = llvm::dyn_cast<clang::TypeAliasDecl>(decl)) {
        read_alias(*alias, slice);
      } else if (const auto* templated = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl)) {
        Symbol* symbol = named(templated->getNameAsString());
        if (symbol)
          extend(*symbol, *templated, slice);
        else
          symbol = &add(*templated, Symbol::Kind::function, templated->getNameAsString(), slice);
        specs_.by_decl_[templated->getTemplatedDecl()->getCanonicalDecl()] = symbol;
      } else if (llvm::isa<clang::UsingDecl, clang::NamespaceAliasDecl>(decl)) {
        // Declarations for names of specs are dropped, because all of these are in one namespace here.
        const auto& name = llvm::cast<clang::NamedDecl>(*decl);
        if (names_a_spec(name)) continue;
        // `using std::max, std::min;` is one symbol.
        if (Symbol* first = specs_.symbol(llvm::cast<clang::NamedDecl>(slice.decls.front())))
          specs_.by_decl_[llvm::cast<clang::NamedDecl>(decl->getCanonicalDecl())] = first;
        else
          add(name, Symbol::Kind::value, name.getNameAsString(), slice).is_lookup = true;
      } else if (llvm::isa<clang::VarDecl, clang::EnumDecl>(decl)) {
        const auto& value = llvm::cast<clang::NamedDecl>(*decl);
        add(value, Symbol::Kind::value, value.getName().str(), slice);
      } else if (!llvm::isa<clang::StaticAssertDecl>(decl)) {
        const bool is_template = llvm::isa<clang::TemplateDecl>(decl);
        specs_.reject(core(*decl),
                      is_template ? "modgen does not support class templates in a spec"
                                  : "modgen does not support this form in a spec",
                      "declare only classes, functions, constants, enums and aliases");
      }
    }
  }

  /// Whether a using-declaration or a namespace alias names declarations of specs.
  bool names_a_spec(const clang::NamedDecl& decl) const {
    if (const auto* alias = llvm::dyn_cast<clang::NamespaceAliasDecl>(&decl))
      return specs_.of_namespace(alias->getNamespace()) != nullptr;
    for (const clang::UsingShadowDecl* shadow : llvm::cast<clang::UsingDecl>(decl).shadows())
      if (specs_.symbol(shadow->getTargetDecl())) return true;
    return false;
  }

  /// A method that is defined outside its class replaces its declaration there, so its parameters need the same names.
  void read_definition(const clang::FunctionDecl& function) {
    const auto* declared = llvm::cast<clang::FunctionDecl>(function.getCanonicalDecl());
    for (unsigned index = 0; index < function.getNumParams(); ++index) {
      const clang::ParmVarDecl &here = *function.getParamDecl(index), &there = *declared->getParamDecl(index);
      if (here.getDeclName() && here.getDeclName() != there.getDeclName())
        specs_.reject(
            parsed_.token(manager_, here.getLocation()),
            "parameter '" + here.getNameAsString() + "' has another name in the declaration of the method",
            "use the same name in both",
            {{Diagnostic::Severity::note, parsed_.token(manager_, there.getLocation()), "the declaration", "", {}}},
            there.getDeclName()
                ? std::vector<Edit>{{parsed_.token(manager_, there.getLocation()), here.getNameAsString()}}
                : std::vector<Edit>{});
    }
  }

  /// Reads the arguments of MODULAR_FAMILY: a constant of the prelude's FamilyNames.
  void read_names(const clang::VarDecl& variable) {
    const clang::APValue* value = variable.evaluateValue();
    if (!value || !value->isStruct()) return;
    const auto literal_at = [](const clang::APValue& field) {
      const auto* expr =
          field.isLValue() && !field.isNullPointer() ? field.getLValueBase().dyn_cast<const clang::Expr*>() : nullptr;
      return llvm::dyn_cast_or_null<clang::StringLiteral>(expr);
    };
    const auto text_at = [&](const clang::APValue& field) {
      const clang::StringLiteral* literal = literal_at(field);
      return literal ? literal->getString().str() : std::string();
    };
    const auto field = [&](unsigned index) { return text_at(value->getStructField(index)); };
    const auto or_else = [](const std::string& given, const std::string& otherwise) {
      return given.empty() ? otherwise : given;
    };
    spec_.prefix = field(0);
    spec_.names = {spec_.prefix,
                   spec_.name,
                   or_else(field(2), upper_case(spec_.name)),
                   or_else(field(3), spec_.name),
                   or_else(field(1), spec_.prefix),
                   !field(1).empty()};
    const clang::APValue& members = value->getStructField(4);
    for (unsigned index = 0; members.isArray() && index < members.getArrayInitializedElts(); ++index) {
      const clang::APValue& one = members.getArrayInitializedElt(index);
      const clang::StringLiteral* literal = literal_at(one.getStructField(0));
      std::string from = text_at(one.getStructField(0)), owner;
      if (const size_t colons = from.find("::"); colons != std::string::npos) {
        owner = from.substr(0, colons);
        from.erase(0, colons + 2);
      }
      if (!from.empty())
        spec_.members.push_back(
            {owner, from, text_at(one.getStructField(1)), parsed_.token(manager_, literal->getBeginLoc())});
    }
  }

  /// Rejects declarations that a macro makes, except for TORCH_MODULE.
  bool made_by_macro(const clang::Decl& decl) {
    const clang::SourceLocation begin = decl.getBeginLoc();
    if (!begin.isMacroID() || manager_.isMacroArgExpansion(begin)) return false;
    // An annotation macro before a declaration does not make the declaration.
    if (const auto* name = llvm::dyn_cast<clang::NamedDecl>(&decl); name && !name->getLocation().isMacroID())
      return false;
    const auto macro = clang::Lexer::getImmediateMacroName(begin, manager_, specs_.compiler().getLangOpts());
    const SourceSpan call = core(decl);
    const std::string_view text = parsed_.sources.text(call);
    if (text.starts_with("TORCH_MODULE(") || text.starts_with("TORCH_MODULE_IMPL(")) return false;
    specs_.reject(call, "macro '" + macro.str() + "' expands to a declaration, which modgen cannot read",
                  "write the declaration without the macro; only TORCH_MODULE may expand to one");
    return true;
  }

  void read_class(const clang::CXXRecordDecl& record, const Slice& slice) {
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
      if (note->getAnnotation() == "modular.stands_for") read_stands_for(symbol, *note);
  }

  /// `Both<YImpl, ZImpl>`; null for other types.
  static clang::TemplateSpecializationTypeLoc arguments_of_both(clang::TypeLoc loc) {
    loc = loc.getUnqualifiedLoc();
    if (const auto elaborated = loc.getAs<clang::ElaboratedTypeLoc>()) loc = elaborated.getNamedTypeLoc();
    const auto special = loc.getAs<clang::TemplateSpecializationTypeLoc>();
    if (!special || special.getNumArgs() != 2) return {};
    const auto* template_decl = special.getTypePtr()->getTemplateName().getAsTemplateDecl();
    return template_decl && template_decl->getQualifiedNameAsString() == "modular::Both"
               ? special
               : clang::TemplateSpecializationTypeLoc();
  }

  /// Whether both derive from one class, and neither from the other.
  static bool have_common_base(const Symbol& one, const Symbol& other) {
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

  void read_stands_for(Symbol& symbol, const clang::AnnotateAttr& note) {
    symbol.stands_for = true;
    for (const clang::Expr* argument : note.args()) {
      const clang::Expr* bare = argument->IgnoreParenImpCasts();
      if (const auto* constant = llvm::dyn_cast<clang::ConstantExpr>(bare))
        bare = constant->getSubExpr()->IgnoreParenImpCasts();
      const auto* size = llvm::dyn_cast<clang::UnaryExprOrTypeTraitExpr>(bare);
      if (size && size->isArgumentType()) symbol.replaced = type_symbol(size->getArgumentTypeInfo()->getTypeLoc());
    }
  }

  /// The symbol that a written type names. Looks through the family's Its<…>.
  Symbol* type_symbol(clang::TypeLoc loc) {
    loc = loc.getUnqualifiedLoc();
    if (const auto elaborated = loc.getAs<clang::ElaboratedTypeLoc>()) loc = elaborated.getNamedTypeLoc();
    if (const auto alias = loc.getAs<clang::TypedefTypeLoc>()) return specs_.symbol(alias.getTypedefNameDecl());
    if (const auto special = loc.getAs<clang::TemplateSpecializationTypeLoc>()) return its_symbol(special);
    if (const auto* record = loc.getType()->getAsCXXRecordDecl()) return specs_.symbol(record);
    return nullptr;
  }

  /// The class that `family::Its<base>` names: the family's declared replacement, or the inferred class.
  Symbol* its_symbol(clang::TemplateSpecializationTypeLoc loc) {
    if (loc.getNumArgs() != 1 || !loc.getArgLoc(0).getTypeSourceInfo()) return nullptr;
    Symbol* inner = type_symbol(loc.getArgLoc(0).getTypeSourceInfo()->getTypeLoc());
    const auto* its = loc.getTypePtr()->getTemplateName().getAsTemplateDecl();
    const auto* space = its ? llvm::dyn_cast<clang::NamespaceDecl>(its->getDeclContext()) : nullptr;
    Spec* family = space ? specs_.of_namespace(space) : nullptr;
    if (!inner || !family || family == &spec_) return inner;
    return inferred_in(*family, *inner, parsed_.span(manager_, loc.getSourceRange()));
  }

  /// The counterpart of `inner` in `family`, through each family between the two.
  Symbol* inferred_in(Spec& family, Symbol& inner, SourceSpan where) {
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

  /// The one family that all classes of `family` derive from; null if they derive from several.
  static Spec* only_base(const Spec& family) {
    Spec* only = nullptr;
    for (const Symbol* symbol : family.symbols) {
      if (!symbol->base || symbol->base->spec == &family) continue;
      if (only && only != symbol->base->spec) return nullptr;
      only = symbol->base->spec;
    }
    return only;
  }

  void read_alias(const clang::TypeAliasDecl& alias, const Slice& slice) {
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

  /// Reads `using X = LayerNorm` or `using XImpl = LayerNormImpl`, an alias of a module class that no spec declares: X
  /// means that class.
  bool read_library_alias(const clang::TypeAliasDecl& alias, const Slice& slice) {
    const clang::CXXRecordDecl* record = alias.getUnderlyingType()->getAsCXXRecordDecl();
    if (!record || !record->hasDefinition()) return false;
    constexpr std::string_view kImpl = "Impl";
    std::string name = alias.getName().str(), type = record->getQualifiedNameAsString();
    std::string library(
        parsed_.sources.text(parsed_.span(manager_, alias.getTypeSourceInfo()->getTypeLoc().getSourceRange())));
    if (!held_by(*record)) {
      const bool is_impl = name.ends_with(kImpl) && library.ends_with(kImpl) && derives_from_module(*record);
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

  static bool derives_from_module(const clang::CXXRecordDecl& record) {
    if (record.getQualifiedNameAsString() == "torch::nn::Module") return true;
    for (const clang::CXXBaseSpecifier& base : record.bases())
      if (const auto* from = base.getType()->getAsCXXRecordDecl();
          from && from->hasDefinition() && derives_from_module(*from))
        return true;
    return false;
  }

  static const clang::CXXRecordDecl* target_record(const Symbol& symbol) {
    const Symbol* at = &symbol;
    while (at && !at->record) at = at->base;
    return at ? at->record : nullptr;
  }

  Specs& specs_;
  Spec& spec_;
  Parsed& parsed_;
  const clang::SourceManager& manager_;
};

void read_spec(Specs& specs, Spec& spec) { SpecReader(specs, spec).read(); }

}  // namespace modgen
