#include "generator/specs.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Sema.h>
#include <llvm/Support/ConvertUTF.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>

#include "generator/edits.h"
#include "generator/self_reads.h"
#include "generator/slices.h"

namespace modgen {

namespace {

bool is_valid_utf8(std::string_view text) {
  const auto* at = reinterpret_cast<const llvm::UTF8*>(text.data());
  return llvm::isLegalUTF8String(&at, at + text.size());
}

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

/// The record that a class made by TORCH_MODULE holds.
const clang::CXXRecordDecl* held_by(const clang::CXXRecordDecl& record) {
  if (!record.hasDefinition()) return nullptr;
  for (const clang::CXXBaseSpecifier& base : record.bases()) {
    const auto* special =
        llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(base.getType()->getAsCXXRecordDecl());
    if (special && special->getName() == "ModuleHolder")
      return special->getTemplateArgs()[0].getAsType()->getAsCXXRecordDecl();
  }
  return nullptr;
}

}  // namespace

Names names_with(const Spec& family, std::string prefix) {
  Names names = family.names;
  names.prefix = std::move(prefix);
  return names;
}

namespace {

/// What `symbol` has in the place of its base's prefix; empty where its name does not end as its base's does, or its
/// base is of the same family.
std::string prefix_of(const Symbol& symbol) {
  const Symbol* base = symbol.base;
  if (!symbol.is_class() || !base || base->spec == symbol.spec) return "";
  const std::string &prefix = base->spec->prefix, &name = symbol.name;
  if (!starts_with(base->name, prefix) || base->name == prefix) return "";
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
        if (const std::string own = prefix_of(*symbol); !own.empty()) ++found->second[own];
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
    if (const std::string own = prefix_of(symbol);
        counts_for_others(symbol.spec->prefixes_over(base), own, *symbol.spec))
      return own;
  return prefix_given(*symbol.spec, base);
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
    if (candidate->is_class() != symbol.is_class()) continue;
    const bool same_base = candidate->base ? candidate->base->spec == symbol.spec : family.bases() == 1;
    if (candidate->name == own_name || (!symbol.is_class() && candidate->name == symbol.name))
      named = candidate;
    else if (candidate->name == plain_name && same_base)
      plain = candidate;
    else if (symbol.is_class() && candidate->base == &symbol &&
             counts_for_others(family.prefixes_over(*symbol.spec), prefix_of(*candidate), family))
      special = candidate, ++specials;
  }
  return named ? named : plain ? plain : specials == 1 ? special : nullptr;
}

bool Spec::sees(const Spec& other) const {
  std::set<const Spec*> seen;
  std::vector<const Spec*> next = {this};
  while (!next.empty()) {
    const Spec* spec = next.back();
    next.pop_back();
    if (spec == &other) return true;
    if (seen.insert(spec).second) next.insert(next.end(), spec->includes.begin(), spec->includes.end());
  }
  return false;
}

std::vector<AnnotationMacro> annotations(const clang::Decl& decl, const clang::SourceManager& manager,
                                         const Parsed& parsed) {
  std::vector<AnnotationMacro> found;
  for (const auto* attribute : decl.specific_attrs<clang::AnnotateAttr>()) {
    if (!starts_with(std::string_view(attribute->getAnnotation()), "modular.")) continue;
    const auto call = manager.getExpansionRange(attribute->getLocation());
    AnnotationMacro macro{attribute->getAnnotation().substr(8).str(), parsed.span(manager, call.getAsRange()), {}, {}};
    for (const clang::Expr* argument : attribute->args()) {
      const clang::Expr* bare = argument->IgnoreParenImpCasts();
      if (const auto* constant = llvm::dyn_cast<clang::ConstantExpr>(bare))
        bare = constant->getSubExpr()->IgnoreParenImpCasts();
      if (const auto* literal = llvm::dyn_cast<clang::StringLiteral>(bare))
        macro.strings.push_back(literal->getString().str());
      if (const auto* size = llvm::dyn_cast<clang::UnaryExprOrTypeTraitExpr>(bare))
        macro.expressions.push_back(
            parsed.span(manager, size->isArgumentType() ? size->getArgumentTypeInfo()->getTypeLoc().getSourceRange()
                                                        : size->getArgumentExpr()->IgnoreParens()->getSourceRange()));
    }
    found.push_back(std::move(macro));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.where.begin < b.where.begin; });
  return found;
}

// ---- Reading one spec -----------------------------------------------------------------------------------------------

class SpecReader {
 public:
  SpecReader(Specs& specs, Spec& spec)
      : specs_(specs), spec_(spec), parsed_(specs.parsed()), manager_(specs.manager()) {}

  void read() {
    const std::string& text = parsed_.sources[spec_.file].text;
    if (!is_valid_utf8(text)) return specs_.refuse({spec_.file, 0, 0}, "this spec is not UTF-8", "save it as UTF-8");
    if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string::npos)
      return specs_.refuse({spec_.file, 0, 0}, "this spec has a byte order mark or a zero byte",
                           "save it as UTF-8 without them");
    find_namespace();
    read_head();
    if (!spec_.space) return;
    slice_namespace();
    for (const Slice& slice : spec_.slices) read_slice(slice);
    if (spec_.prefix.empty()) {
      specs_.refuse(parsed_.token(manager_, spec_.space->getLocation()), "this spec does not name its family",
                    "begin its namespace with MODULAR_FAMILY(…); and the prefix of its classes");
    }
    for (const Symbol* symbol : spec_.symbols)
      if (symbol->is_class() && !spec_.prefix.empty() && !starts_with(symbol->name, spec_.prefix))
        specs_.refuse(symbol->where,
                      "class '" + symbol->name + "' does not begin with its family's prefix '" + spec_.prefix + "'",
                      "name it '" + spec_.prefix + symbol->name + "'", {},
                      rename_class(parsed_, spec_.file, symbol->name, spec_.prefix + symbol->name));
    for (const MacroDefinition& macro : parsed_.macros)
      if (macro.where.file == spec_.file && !macro.undefined)
        specs_.refuse(macro.where, "macro '" + macro.name + "' outlives its spec and would leak into others",
                      "write a constant or a function, or end the spec with #undef " + macro.name, {},
                      append_line(parsed_, spec_.file, "#undef " + macro.name));
  }

 private:
  SourceSpan core(const clang::Decl& decl) const { return parsed_.span(manager_, decl.getSourceRange()); }

  void find_namespace() {
    for (clang::Decl* decl : parsed_.top_level) {
      if (core(*decl).file != spec_.file || llvm::isa<clang::EmptyDecl>(decl)) continue;
      // What using a template made is written nowhere.
      if (const auto* function = decl->getAsFunction(); function && function->isTemplateInstantiation()) continue;
      if (llvm::isa<clang::ClassTemplateSpecializationDecl>(decl)) continue;
      const auto* outer = llvm::dyn_cast<clang::NamespaceDecl>(decl);
      if (!outer || outer->getName() != "modular") {
        wrong_place(*decl);
        continue;
      }
      for (clang::Decl* inner : outer->decls()) {
        const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(inner);
        if (!space || space->getName() != spec_.name)
          wrong_place(*inner);
        else if (spec_.space)
          specs_.refuse(core(*inner), "a spec opens its namespace once",
                        "move this into the first 'namespace modular::" + spec_.name + "'");
        else
          spec_.space = space;
      }
    }
    if (!spec_.space)
      specs_.refuse({spec_.file, 0, 0}, "this spec declares nothing in namespace 'modular::" + spec_.name + "'",
                    "a spec's namespace has the name of its file");
  }

  void wrong_place(const clang::Decl& decl) {
    specs_.refuse(core(decl), "this stands outside of namespace 'modular::" + spec_.name + "'",
                  "a spec declares everything in the namespace that has the name of its file");
  }

  void read_head() {
    const std::string& text = parsed_.sources[spec_.file].text;
    constexpr std::string_view kPragma = "#pragma once";
    const uint32_t first = next_code(text, 0);
    if (text.compare(first, kPragma.size(), kPragma) == 0)
      spec_.file_comment = text.substr(0, first);
    else if (text.find(kPragma) != std::string::npos)
      specs_.refuse({spec_.file, first, first}, "this stands in front of #pragma once",
                    "begin with a comment on the family, and with #pragma once behind it");
    else
      specs_.refuse({spec_.file, 0, 0}, "this spec may be read twice", "put #pragma once behind its opening comment",
                    {}, add_pragma_once(parsed_, spec_.file));
    const auto condition_around = [&](uint32_t offset) -> const Condition* {
      for (const Condition& condition : parsed_.conditions)
        if (condition.where.contains({spec_.file, offset, offset})) return &condition;
      return nullptr;
    };
    for (const Inclusion& inclusion : parsed_.inclusions) {
      if (inclusion.file != spec_.file) continue;
      if (spec_.space && inclusion.offset > parsed_.token(manager_, spec_.space->getLocation()).begin)
        specs_.refuse({spec_.file, inclusion.offset, inclusion.offset}, "an include behind the beginning of the spec",
                      "write it above the namespace");
      const bool guarded = condition_around(inclusion.offset) != nullptr;
      if (Spec* other = specs_.of_file(inclusion.target)) {
        spec_.includes.push_back(other);
        if (guarded)
          specs_.refuse({spec_.file, inclusion.offset, inclusion.offset}, "a spec is included under a condition",
                        "include it always");
      } else if (inclusion.spelling != "\"modular/modular.h\"" && !guarded) {
        spec_.libraries.push_back(inclusion.spelling);
      }
    }
    for (const Condition& condition : parsed_.conditions) {
      if (condition.where.file != spec_.file) continue;
      const uint32_t hash = static_cast<uint32_t>(text.rfind('#', condition.where.begin));
      if (spec_.space && condition.where.begin > parsed_.token(manager_, spec_.space->getLocation()).begin)
        specs_.refuse({spec_.file, hash, hash},
                      "a condition of the preprocessor inside of a spec: modgen sees one side of it only",
                      "write `if constexpr`, or keep conditions around includes");
      else
        spec_.guarded.push_back(text.substr(hash, condition.where.end - hash));
    }
  }

  void slice_namespace() {
    const std::string& text = parsed_.sources[spec_.file].text;
    const SourceSpan close = parsed_.token(manager_, spec_.space->getRBraceLoc());
    // In `namespace modular::gemma {` the brace follows the name.
    const uint32_t open = next_code(text, parsed_.token(manager_, spec_.space->getLocation()).end);
    const uint32_t begin = behind_line_comment(text, open + 1);
    std::vector<clang::Decl*> decls(spec_.space->decls_begin(), spec_.space->decls_end());
    fill(spec_.slices, {spec_.file, begin, close.begin}, decls);
  }

 public:
  /// Groups declarations that share tokens (several declarators, one macro) and gives every byte of `region` to a
  /// slice.
  void fill(std::vector<Slice>& slices, SourceSpan region, const std::vector<clang::Decl*>& decls) {
    std::vector<SourceSpan> cores;
    std::vector<std::vector<clang::Decl*>> groups;
    for (clang::Decl* decl : decls) {
      if (decl->isImplicit() || llvm::isa<clang::EmptyDecl>(decl)) continue;
      const SourceSpan span = core(*decl);
      if (span.file != region.file || span.begin < region.begin || span.end > region.end) continue;
      if (!cores.empty() && span.begin < cores.back().end) {
        cores.back().end = std::max(cores.back().end, span.end);
        groups.back().push_back(decl);
      } else {
        cores.push_back(span);
        groups.push_back({decl});
      }
    }
    const auto wholes = own_gaps(parsed_.sources[region.file].text, region, cores);
    for (size_t index = 0; index < wholes.size(); ++index)
      slices.push_back({wholes[index], index < cores.size() ? cores[index] : wholes[index],
                        index < groups.size() ? groups[index] : std::vector<clang::Decl*>{}});
  }

 private:
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
      } else if (llvm::isa<clang::VarDecl, clang::EnumDecl>(decl)) {
        const auto& value = llvm::cast<clang::NamedDecl>(*decl);
        add(value, Symbol::Kind::value, value.getName().str(), slice);
      } else if (!llvm::isa<clang::StaticAssertDecl>(decl)) {
        const bool is_template = llvm::isa<clang::TemplateDecl>(decl);
        specs_.refuse(core(*decl),
                      is_template ? "modgen does not support class templates in a spec"
                                  : "modgen does not support this form in a spec",
                      "declare classes, functions, constants, enums and aliases only");
      }
    }
  }

  /// A method that is defined behind its class goes into it, behind its declaration.
  void read_definition(const clang::FunctionDecl& function) {
    const auto* declared = llvm::cast<clang::FunctionDecl>(function.getCanonicalDecl());
    for (unsigned index = 0; index < function.getNumParams(); ++index) {
      const clang::ParmVarDecl &here = *function.getParamDecl(index), &there = *declared->getParamDecl(index);
      if (here.getDeclName() && here.getDeclName() != there.getDeclName())
        specs_.refuse(
            parsed_.token(manager_, here.getLocation()),
            "parameter '" + here.getNameAsString() + "' has another name where its class declares the method",
            "give it the same name in both places",
            {{Diagnostic::Severity::note, parsed_.token(manager_, there.getLocation()), "the declaration", "", {}}},
            there.getDeclName()
                ? std::vector<Edit>{{parsed_.token(manager_, there.getLocation()), here.getNameAsString()}}
                : std::vector<Edit>{});
    }
  }

  /// What MODULAR_FAMILY says: a constant of the prelude's FamilyNames.
  void read_names(const clang::VarDecl& variable) {
    const clang::APValue* value = variable.evaluateValue();
    if (!value || !value->isStruct()) return;
    const auto text_at = [](const clang::APValue& field) {
      const auto* expr =
          field.isLValue() && !field.isNullPointer() ? field.getLValueBase().dyn_cast<const clang::Expr*>() : nullptr;
      const auto* literal = llvm::dyn_cast_or_null<clang::StringLiteral>(expr);
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
      std::string from = text_at(one.getStructField(0)), owner;
      if (const size_t colons = from.find("::"); colons != std::string::npos) {
        owner = from.substr(0, colons);
        from.erase(0, colons + 2);
      }
      if (!from.empty()) spec_.members.push_back({owner, from, text_at(one.getStructField(1))});
    }
  }

  /// Refuses declarations that a macro makes, but for TORCH_MODULE.
  bool made_by_macro(const clang::Decl& decl) {
    const clang::SourceLocation begin = decl.getBeginLoc();
    if (!begin.isMacroID() || manager_.isMacroArgExpansion(begin)) return false;
    // An annotation's macro in front of a declaration does not make it.
    if (const auto* name = llvm::dyn_cast<clang::NamedDecl>(&decl); name && !name->getLocation().isMacroID())
      return false;
    const auto macro = clang::Lexer::getImmediateMacroName(begin, manager_, specs_.compiler().getLangOpts());
    const SourceSpan call = core(decl);
    const std::string_view text = parsed_.sources.text(call);
    if (starts_with(text, "TORCH_MODULE(") || starts_with(text, "TORCH_MODULE_IMPL(")) return false;
    specs_.refuse(call, "macro '" + macro.str() + "' makes a declaration here, and modgen cannot see into it",
                  "write the declaration out; TORCH_MODULE is the one macro that may make one");
    return true;
  }

  void read_class(const clang::CXXRecordDecl& record, const Slice& slice) {
    if (!record.isThisDeclarationADefinition())
      return;  // a forward declaration: the order of output makes it unnecessary
    if (const clang::CXXRecordDecl* held = held_by(record)) {
      Symbol* symbol = specs_.symbol(held);
      if (!symbol || symbol->spec != &spec_)
        return specs_.refuse(core(record), "TORCH_MODULE names a class that this spec does not define",
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
        return specs_.refuse(where, "'" + symbol.name + "' hides its base", "write 'public' before the base", {},
                             base.getAccessSpecifierAsWritten() == clang::AS_none
                                 ? std::vector<Edit>{{{where.file, where.begin, where.begin}, "public "}}
                                 : std::vector<Edit>{});
      Symbol* from = type_symbol(base.getTypeSourceInfo()->getTypeLoc());
      if (!from) continue;
      if (symbol.base)
        return specs_.refuse(where, "'" + symbol.name + "' derives from two classes of specs",
                             "derive from one and hold the other as a member");
      symbol.base = symbol.replaced = from;
    }
    for (const auto* note : record.specific_attrs<clang::AnnotateAttr>())
      if (note->getAnnotation() == "modular.stands_for") read_stands_for(symbol, *note);
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

  /// The symbol that a written type names, seen through the family's Its<…>.
  Symbol* type_symbol(clang::TypeLoc loc) {
    loc = loc.getUnqualifiedLoc();
    if (const auto elaborated = loc.getAs<clang::ElaboratedTypeLoc>()) loc = elaborated.getNamedTypeLoc();
    if (const auto alias = loc.getAs<clang::TypedefTypeLoc>()) return specs_.symbol(alias.getTypedefNameDecl());
    if (const auto special = loc.getAs<clang::TemplateSpecializationTypeLoc>()) return its_symbol(special);
    if (const auto* record = loc.getType()->getAsCXXRecordDecl()) return specs_.symbol(record);
    return nullptr;
  }

  /// The class that `family::Its<base>` names: what the family declares in its place, or infers.
  Symbol* its_symbol(clang::TemplateSpecializationTypeLoc loc) {
    if (loc.getNumArgs() != 1 || !loc.getArgLoc(0).getTypeSourceInfo()) return nullptr;
    Symbol* inner = type_symbol(loc.getArgLoc(0).getTypeSourceInfo()->getTypeLoc());
    const auto* its = loc.getTypePtr()->getTemplateName().getAsTemplateDecl();
    const auto* space = its ? llvm::dyn_cast<clang::NamespaceDecl>(its->getDeclContext()) : nullptr;
    Spec* family = space ? specs_.of_namespace(space) : nullptr;
    if (!inner || !family || family == &spec_) return inner;
    return inferred_in(*family, *inner, parsed_.span(manager_, loc.getSourceRange()));
  }

  /// `inner` as `family` has it, through each family between the two.
  Symbol* inferred_in(Spec& family, Symbol& inner, SourceSpan where) {
    if (&family == inner.spec) return &inner;
    Symbol* base = &inner;
    if (Spec* next = only_base(family); next && next != inner.spec && next->sees(*inner.spec)) {
      base = inferred_in(*next, inner, where);
    }
    const std::string prefix = prefix_given(family, *base->spec);
    if (Symbol* declared = covering(family, *base, prefix)) {
      if (declared->is_alias()) return declared;  // nothing differs, and in C++ it is the same class
      specs_.refuse(
          where, "family '" + family.name + "' declares '" + declared->name + "' in the place of '" + inner.name + "'",
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

  /// The family that all classes of `family` derive from, where there is one such.
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
      add(alias, Symbol::Kind::value, name, slice);
      return;
    }
    // `using XImpl = base::YImpl` beside `using X = base::Y` is the same class.
    const bool impl = target->kind == Symbol::Kind::module_class &&
                      alias.getUnderlyingType()->getAsCXXRecordDecl() == target_record(*target);
    if (impl) {
      if (name.size() < 5 || name.substr(name.size() - 4) != "Impl")
        return specs_.refuse(core(alias), "the alias of a module's class ends in Impl",
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

// ---- All of them ----------------------------------------------------------------------------------------------------

void Specs::read_new() {
  // Of templates, too, what they are used with may not compile; the specs' own alone have bodies here.
  compiler_.getSema().PerformPendingInstantiations();
  const size_t known = specs_.size();
  const std::function<void(uint32_t)> visit = [&](uint32_t file) {
    if (!files_.insert(file).second) return;
    for (const Inclusion& inclusion : parsed_.inclusions)
      if (inclusion.file == file && inclusion.target != 0) visit(inclusion.target);
    const std::filesystem::path path = parsed_.sources[file].absolute;
    if (path.parent_path().filename() != "modular" || path.filename() == "modular.h") return;
    auto spec = std::make_unique<Spec>();
    spec->name = path.stem().string();
    spec->file = file;
    specs_.push_back(std::move(spec));
  };
  for (uint32_t file = 1; file < parsed_.sources.size(); ++file) visit(file);
  for (size_t index = known; index < specs_.size(); ++index) SpecReader(*this, *specs_[index]).read();
  for (size_t index = known; index < specs_.size(); ++index) {
    Spec& spec = *specs_[index];
    if (!spec.space) continue;
    spec.references = collect_references(*spec.space, manager(), parsed_);
    std::set<const Spec*> told;
    for (const Reference& reference : spec.references) {
      const Symbol* target = symbol(reference.target);
      if (target && !spec.sees(*target->spec) && told.insert(target->spec).second)
        refuse(reference.where, "family '" + target->spec->name + "' is used without its spec",
               "add #include \"modular/" + target->spec->name + ".h\"", {},
               include_spec(parsed_, reference.where.file, target->spec->name));
    }
    for (const SelfRead& read : self_reads(*spec.space))
      refuse(parsed_.token(manager(), read.where),
             "'" + read.name + "' is read by its own initializer, before it has a value",
             "initialize it from something else");
  }
}

const clang::SourceManager& Specs::manager() const { return compiler_.getSourceManager(); }

Spec* Specs::family(const std::string& name) const {
  for (const auto& spec : specs_)
    if (spec->name == name) return spec.get();
  return nullptr;
}

Spec* Specs::of_file(uint32_t file) const {
  for (const auto& spec : specs_)
    if (spec->file == file && file != 0) return spec.get();
  return nullptr;
}

Symbol* Specs::symbol(const clang::Decl* decl) const {
  if (!decl) return nullptr;
  if (llvm::isa<clang::CXXConstructorDecl, clang::CXXDestructorDecl>(decl))
    decl = llvm::cast<clang::CXXMethodDecl>(decl)->getParent();
  const auto found = by_decl_.find(decl->getCanonicalDecl());
  return found == by_decl_.end() ? nullptr : found->second;
}

Spec* Specs::of_namespace(const clang::NamespaceDecl* space) const {
  for (const auto& spec : specs_)
    if (spec->space && spec->space->getCanonicalDecl() == space->getCanonicalDecl()) return spec.get();
  return nullptr;
}

void Specs::refuse(SourceSpan where, std::string message, std::string advice, std::vector<Remark> notes,
                   std::vector<Edit> fix) const {
  parsed_.remarks.push_back(
      {Diagnostic::Severity::error, where, std::move(message), std::move(advice), std::move(notes), std::move(fix)});
}

const clang::FunctionDecl& Specs::defined(const clang::FunctionDecl& function) {
  const clang::FunctionDecl* definition = function.getDefinition();
  return definition ? *definition : function;
}

std::vector<Slice> Specs::members(const clang::CXXRecordDecl& record) const {
  const SourceSpan open = parsed_.token(manager(), record.getBraceRange().getBegin());
  const SourceSpan close = parsed_.token(manager(), record.getBraceRange().getEnd());
  const uint32_t begin = behind_line_comment(parsed_.sources[open.file].text, open.end);
  std::vector<clang::Decl*> decls(record.decls_begin(), record.decls_end());
  std::vector<Slice> slices;
  Spec scratch;
  SpecReader(const_cast<Specs&>(*this), scratch).fill(slices, {open.file, begin, close.begin}, decls);
  return slices;
}

}  // namespace modgen
