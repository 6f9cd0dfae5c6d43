#include "generator/resolve/specs.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "generator/resolve/spec_reader.h"
#include "generator/source/fixes.h"
#include "generator/source/slices.h"

namespace modgen {

static bool is_part(const BaseObject& object) { return object.kind == BaseObject::Kind::part; }

static std::string message_of(const BaseObject& object) {
  const std::string &base = object.base->name, &replacement = object.replacement->name;
  if (is_part(object))
    return "C++ copies the '" + base + "' in this object, and flattened, it would stay a '" + replacement + "'";
  if (object.kind == BaseObject::Kind::argument)
    return "this template makes an object of '" + base + "', and flattened, it would be a '" + replacement + "'";
  return "C++ makes an object of '" + base + "' here, and flattened, it would be a '" + replacement + "'";
}

bool Symbol::declares_field(const std::string& field) const {
  if (!record) return false;
  const auto named = record->lookup(&record->getASTContext().Idents.get(field));
  return std::any_of(named.begin(), named.end(),
                     [](const clang::NamedDecl* one) { return llvm::isa<clang::FieldDecl>(one); });
}

bool Symbol::names_type() const {
  return is_class() ||
         std::ranges::any_of(decls, [](const clang::NamedDecl* one) { return llvm::isa<clang::EnumDecl>(one); });
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
    if (!attribute->getAnnotation().starts_with("modular.")) continue;
    const auto call = manager.getExpansionRange(attribute->getLocation());
    AnnotationMacro macro{annotation_kind(attribute->getAnnotation()), parsed.span(manager, call.getAsRange()), {}, {}};
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

void Specs::read_new() {
  // Instantiations may fail to compile, too. Only templates of specs have bodies here.
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
    spec.called_by_arguments = names_called_by_arguments(*spec.space);
    spec.texts = collect_texts(*spec.space, manager(), parsed_);
    std::set<const Spec*> reported;
    for (const Reference& reference : spec.references) {
      const Symbol* target = symbol(reference.target);
      if (target && !spec.sees(*target->spec) && reported.insert(target->spec).second)
        reject(reference.where, "family '" + target->spec->name + "' is used without its spec",
               "add #include \"modular/" + target->spec->name + ".h\"", {},
               include_spec(parsed_, reference.where.file, target->spec->name));
    }
    for (const UnsupportedForm& form : unsupported_forms(*spec.space))
      reject(parsed_.token(manager(), form.where), "modgen does not support " + form.name, form.advice);
    for (const WrongRemake& wrong : wrong_remakes(*spec.space))
      reject(parsed_.span(manager(), wrong.where), wrong.message, wrong.advice);
    for (const SelfRead& read : self_reads(*spec.space))
      reject(parsed_.token(manager(), read.where),
             "'" + read.name + "' is read by its own initializer, before it has a value",
             "initialize it from something else");
    for (const BaseView& view : base_views(*spec.space))
      reject(parsed_.token(manager(), view.where),
             "C++ means the '" + view.name + "' of '" + view.base +
                 (view.in.empty() ? "' here" : "' in '" + view.in + "' here") +
                 ", and flattened, the class has only the one that replaces it",
             view.in.empty() ? "call it as " + view.base + "::" + view.name + " on this, or give it another name"
                             : "pass the object as what it is, or give the member another name");
    for (const BaseObject& object : base_objects(*this, spec))
      reject(parsed_.token(manager(), object.where), message_of(object),
             is_part(object) ? "take it by reference, or as a '" + object.replacement->name + "'"
                             : "make a '" + object.replacement->name + "'");
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
  if (llvm::isa<clang::EnumConstantDecl>(decl)) decl = llvm::cast<clang::Decl>(decl->getDeclContext());
  const auto found = by_decl_.find(decl->getCanonicalDecl());
  return found == by_decl_.end() ? nullptr : found->second;
}

bool Specs::is_text(const clang::StringLiteral& literal) const {
  return std::ranges::any_of(specs_, [&](const auto& spec) { return spec->texts.literals.contains(&literal); });
}

bool Specs::is_entry(const Symbol& symbol) const {
  return std::ranges::any_of(symbol.decls, [&](const clang::NamedDecl* decl) {
    return std::ranges::any_of(annotations(*decl, manager(), parsed_),
                               [](const AnnotationMacro& note) { return note.kind == AnnotationKind::entry; });
  });
}

Spec* Specs::of_namespace(const clang::NamespaceDecl* space) const {
  for (const auto& spec : specs_)
    if (spec->space && spec->space->getCanonicalDecl() == space->getCanonicalDecl()) return spec.get();
  return nullptr;
}

void Specs::reject(SourceSpan where, std::string message, std::string advice, std::vector<Remark> notes,
                   std::vector<Edit> fix) const {
  parsed_.remarks.push_back(
      {Diagnostic::Severity::error, where, std::move(message), std::move(advice), std::move(notes), std::move(fix)});
}

void Specs::warn(SourceSpan where, std::string message, std::string advice, std::vector<Remark> notes) const {
  parsed_.remarks.push_back(
      {Diagnostic::Severity::warning, where, std::move(message), std::move(advice), std::move(notes)});
}

const clang::FunctionDecl& Specs::defined(const clang::FunctionDecl& function) {
  const clang::FunctionDecl* definition = function.getDefinition();
  return definition ? *definition : function;
}

std::vector<Slice> Specs::members(const clang::CXXRecordDecl& record) const {
  const SourceSpan open = parsed_.token(manager(), record.getBraceRange().getBegin());
  const SourceSpan close = parsed_.token(manager(), record.getBraceRange().getEnd());
  const uint32_t begin = after_line_comment(parsed_.sources[open.file].text, open.end);
  return slices({open.file, begin, close.begin}, {record.decls_begin(), record.decls_end()});
}

std::vector<Slice> Specs::slices(SourceSpan region, const std::vector<clang::Decl*>& decls) const {
  std::vector<SourceSpan> cores;
  std::vector<std::vector<clang::Decl*>> groups;
  for (clang::Decl* decl : decls) {
    if (decl->isImplicit() || llvm::isa<clang::EmptyDecl>(decl)) continue;
    const SourceSpan span = parsed_.span(manager(), *decl);
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
  std::vector<Slice> slices;
  for (size_t index = 0; index < wholes.size(); ++index)
    slices.push_back({wholes[index], index < cores.size() ? cores[index] : wholes[index],
                      index < groups.size() ? groups[index] : std::vector<clang::Decl*>{}});
  return slices;
}

}  // namespace modgen
