#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>

#include "generator/resolve/signatures.h"
#include "generator/resolve/spec_reader.h"
#include "generator/source/fixes.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// The words for declarations of that kind.
std::string name_of_form(const clang::Decl& decl) {
  if (llvm::isa<clang::ConceptDecl>(decl)) return "concepts";
  if (llvm::isa<clang::TypeAliasTemplateDecl>(decl)) return "alias templates";
  if (llvm::isa<clang::VarTemplateDecl>(decl)) return "variable templates";
  return llvm::isa<clang::TemplateDecl>(decl) ? "class templates" : "this form";
}

}  // namespace

void SpecReader::read() {
  if (auto error = encoding_error(spec_.file, parsed_.sources[spec_.file].text))
    return parsed_.remarks.push_back(std::move(*error));
  check_line_lengths();
  find_namespace();
  read_head();
  check_tokens();
  if (!spec_.space) return;
  slice_namespace();
  for (const Slice& slice : spec_.slices) read_slice(slice);
  for (Symbol* symbol : spec_.symbols)
    if (symbol->kind == Symbol::Kind::function)
      symbol->signature = get_signature(specs_, *symbol->decls.front()->getAsFunction());
  check_used_functions();
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

void SpecReader::check_line_lengths() {
  constexpr size_t kMost = 100'000;  // the time to format a literal or a comment grows with the square of its length
  const std::string& text = parsed_.sources[spec_.file].text;
  size_t comment = 0;  // bytes of the comments on the lines up to here
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const size_t first = std::min(text.find_first_not_of(" \t", begin), end);
    comment = text.compare(first, 2, "//") == 0 ? comment + end - begin : 0;
    if (std::max(comment, end - begin) <= kMost) continue;
    const auto at = static_cast<uint32_t>(begin);
    return specs_.reject(
        {spec_.file, at, at},
        "a line or a comment of more than " + std::to_string(kMost) + " bytes, which takes too long to format",
        "shorten it, or read the text from a file when the model is made");
  }
}

void SpecReader::check_tokens() {
  static constexpr std::string_view kPlaces[] = {"__LINE__",           "__FILE__",         "__FILE_NAME__",
                                                 "__BASE_FILE__",      "__COUNTER__",      "__builtin_LINE",
                                                 "__builtin_COLUMN",   "__builtin_FILE",   "source_location",
                                                 "__builtin_FUNCTION", "__INCLUDE_LEVEL__"};
  const std::string& text = parsed_.sources[spec_.file].text;
  bool is_header = false;
  for (const RawToken& token : raw_tokens(text, 0, static_cast<uint32_t>(text.size()))) {
    const std::string_view word = std::string_view(text).substr(token.begin, token.end - token.begin);
    const SourceSpan where{spec_.file, token.begin, token.end};
    if (token.kind == RawToken::Kind::identifier && !is_header && std::ranges::find(kPlaces, word) != std::end(kPlaces))
      specs_.reject(where, "'" + std::string(word) + "' is another value in the flattened file",
                    "write a value that does not depend on where the code is");
    if (token.kind == RawToken::Kind::comment && word.starts_with("//") && word.find('\n') != std::string_view::npos)
      specs_.reject(where, "this comment continues on the next line", "remove the backslash at the end of its line");
    is_header = word == "<";
  }
}

void SpecReader::find_namespace() {
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

void SpecReader::reject_outside_namespace(const clang::Decl& decl) {
  specs_.reject(core(decl), "this is outside of namespace 'modular::" + spec_.name + "'",
                "a spec declares everything in the namespace that has the name of its file");
}

void SpecReader::read_head() {
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
      specs_.reject({spec_.file, inclusion.offset, inclusion.offset}, "an include after the beginning of the namespace",
                    "move it above the namespace");
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

void SpecReader::slice_namespace() {
  const std::string& text = parsed_.sources[spec_.file].text;
  const SourceSpan close = parsed_.token(manager_, spec_.space->getRBraceLoc());
  // In `namespace modular::gemma {` the brace follows the name.
  const uint32_t open = next_code(text, parsed_.token(manager_, spec_.space->getLocation()).end);
  const uint32_t begin = after_line_comment(text, open + 1);
  std::vector<clang::Decl*> decls(spec_.space->decls_begin(), spec_.space->decls_end());
  spec_.slices = specs_.slices({spec_.file, begin, close.begin}, decls);
}

Symbol& SpecReader::add(const clang::NamedDecl& decl, Symbol::Kind kind, std::string name, const Slice& slice) {
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

Symbol& SpecReader::add_function(const clang::NamedDecl& decl, const clang::FunctionDecl& function,
                                 const Slice& slice) {
  const std::string name = name_of_function(specs_, function);
  Symbol* const symbol = named(name);
  if (!symbol) return add(decl, Symbol::Kind::function, name, slice);
  extend(*symbol, decl, slice);
  return *symbol;
}

void SpecReader::extend(Symbol& symbol, const clang::NamedDecl& decl, const Slice& slice) {
  if (symbol.slices.empty() || symbol.slices.back() != &slice) symbol.slices.push_back(&slice);
  symbol.decls.push_back(&decl);
  specs_.by_decl_[decl.getCanonicalDecl()] = &symbol;
}

Symbol* SpecReader::named(std::string_view name) {
  for (Symbol* symbol : spec_.symbols)
    if (symbol->name == name) return symbol;
  return nullptr;
}

void SpecReader::read_slice(const Slice& slice) {
  for (clang::Decl* decl : slice.decls) {
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl)) {
      for (const auto* note : variable->specific_attrs<clang::AnnotateAttr>())
        if (annotation_kind(note->getAnnotation()) == AnnotationKind::family) {
          spec_.family = slice.core;
          read_names(*variable);
          return;
        }
    }
    if (made_by_macro(*decl) || reject_outside_class(*decl)) continue;
    if (const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl)) {
      read_class(*record, slice);
    } else if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(decl)) {
      if (function->getTemplateSpecializationKind() == clang::TSK_ExplicitSpecialization)
        specs_.reject(core(*decl), "modgen does not support explicit specializations in a spec", "write an overload");
      else if (function->isCXXClassMember())
        read_definition(*function);
      else
        add_function(*function, *function, slice);
    } else if (const auto* alias = llvm::dyn_cast<clang::TypeAliasDecl>(decl)) {
      read_alias(*alias, slice);
    } else if (const auto* templated = llvm::dyn_cast<clang::FunctionTemplateDecl>(decl)) {
      if (templated->isCXXClassMember()) {
        read_definition(*templated->getTemplatedDecl());
        continue;
      }
      const clang::FunctionDecl& pattern = *templated->getTemplatedDecl();
      specs_.by_decl_[pattern.getCanonicalDecl()] = &add_function(*templated, pattern, slice);
    } else if (llvm::isa<clang::UsingDecl, clang::NamespaceAliasDecl>(decl)) {
      // Declarations for names of specs are dropped, because all of these are in one namespace here.
      const auto& name = llvm::cast<clang::NamedDecl>(*decl);
      if (names_a_spec(name)) {
        if (const auto* use = llvm::dyn_cast<clang::UsingDecl>(decl)) used_.push_back(use);
        continue;
      }
      // `using std::max, std::min;` is one symbol.
      if (Symbol* first = specs_.symbol(llvm::cast<clang::NamedDecl>(slice.decls.front())))
        specs_.by_decl_[llvm::cast<clang::NamedDecl>(decl->getCanonicalDecl())] = first;
      else
        add(name, Symbol::Kind::value, name.getNameAsString(), slice).is_lookup = true;
    } else if (llvm::isa<clang::VarDecl, clang::EnumDecl>(decl)) {
      const auto& value = llvm::cast<clang::NamedDecl>(*decl);
      add(value, Symbol::Kind::value, value.getName().str(), slice);
    } else if (!llvm::isa<clang::StaticAssertDecl>(decl)) {
      specs_.reject(core(*decl), "modgen does not support " + name_of_form(*decl) + " in a spec",
                    "declare only classes, functions, constants, enums and aliases");
    }
  }
}

bool SpecReader::names_a_spec(const clang::NamedDecl& decl) const {
  if (const auto* alias = llvm::dyn_cast<clang::NamespaceAliasDecl>(&decl))
    return specs_.of_namespace(alias->getNamespace()) != nullptr;
  for (const clang::UsingShadowDecl* shadow : llvm::cast<clang::UsingDecl>(decl).shadows())
    if (specs_.symbol(shadow->getTargetDecl())) return true;
  return false;
}

void SpecReader::check_used_functions() {
  for (const clang::UsingDecl* use : used_) {
    const Symbol* own = named(use->getNameAsString());
    if (!own || own->kind != Symbol::Kind::function) continue;
    specs_.reject(parsed_.token(manager_, use->getLocation()),
                  "C++ has this function next to the spec's own '" + own->name + "', which in this family replaces it",
                  "give the spec's own function another name",
                  {{Diagnostic::Severity::note, own->where, "the spec's own", "", {}}});
  }
}

bool SpecReader::reject_outside_class(const clang::Decl& decl) {
  if (!decl.getDeclContext()->isRecord()) return false;
  const auto* function = decl.getAsFunction();
  const bool is_nested = decl.getDeclContext()->getParent()->isRecord();
  if (function && is_nested && !function->isDefaulted()) {
    specs_.reject(core(decl), "modgen does not move a method of a nested class into it",
                  "define it in the nested class");
    return true;
  }
  if (function && !function->isDefaulted()) return false;
  specs_.reject(core(decl),
                function                          ? "modgen does not move '= default' into the class"
                : llvm::isa<clang::VarDecl>(decl) ? "modgen does not move this definition into the class"
                                                  : "modgen does not move this type into the class",
                function ? "write it in the class; there, '{}' means the same for a constructor without arguments"
                : llvm::isa<clang::VarDecl>(decl) ? "define it where it is declared, as 'inline static'"
                                                  : "define it where it is declared");
  return true;
}

void SpecReader::check_template_parameters(const clang::FunctionDecl& function, const clang::FunctionDecl& declared) {
  const auto *here = function.getDescribedFunctionTemplate(), *there = declared.getDescribedFunctionTemplate();
  if (!here || !there) return;
  for (unsigned index = 0; index < here->getTemplateParameters()->size(); ++index) {
    const clang::NamedDecl &one = *here->getTemplateParameters()->getParam(index),
                           &other = *there->getTemplateParameters()->getParam(index);
    if (one.getDeclName() && one.getDeclName() != other.getDeclName())
      specs_.reject(
          parsed_.token(manager_, one.getLocation()),
          "template parameter '" + one.getNameAsString() + "' has another name in the declaration of the method",
          "use the same name in both",
          {{Diagnostic::Severity::note, parsed_.token(manager_, other.getLocation()), "the declaration", "", {}}});
  }
}

void SpecReader::read_definition(const clang::FunctionDecl& function) {
  const auto* declared = llvm::cast<clang::FunctionDecl>(function.getCanonicalDecl());
  check_template_parameters(function, *declared);
  for (unsigned index = 0; index < function.getNumParams(); ++index) {
    const clang::ParmVarDecl &here = *function.getParamDecl(index), &there = *declared->getParamDecl(index);
    if (here.hasDefaultArg() && !here.hasInheritedDefaultArg())
      specs_.reject(
          parsed_.token(manager_, here.getLocation()),
          "the declaration of the method does not have this default argument", "write it there",
          {{Diagnostic::Severity::note, parsed_.token(manager_, there.getLocation()), "the declaration", "", {}}});
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

void SpecReader::read_names(const clang::VarDecl& variable) {
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

bool SpecReader::made_by_macro(const clang::Decl& decl) {
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

}  // namespace modgen
