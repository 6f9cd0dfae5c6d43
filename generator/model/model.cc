#include "generator/model/model.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/model/read_body.h"
#include "generator/resolve/effects.h"
#include "generator/resolve/specs.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// The namespace that the flattened text at `file` opens.
const clang::NamespaceDecl* flattened_namespace(const clang::CompilerInstance& compiler, const Parsed& parsed,
                                                uint32_t file) {
  const auto& manager = compiler.getSourceManager();
  for (const clang::Decl* decl : parsed.top_level) {
    const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl);
    if (!space || parsed.token(manager, space->getLocation()).file != file) continue;
    for (int depth = 0; depth < 2 && space; ++depth) {
      const clang::NamespaceDecl* inner = nullptr;
      for (const clang::Decl* child : space->decls())
        if (const auto* nested = llvm::dyn_cast<clang::NamespaceDecl>(child)) inner = nested;
      space = inner;
    }
    return space;
  }
  return nullptr;
}

class ModelReader {
 public:
  ModelReader(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file)
      : manager_(compiler.getSourceManager()), parsed_(parsed), file_(file), text_(parsed.sources[file].text) {}

  void read(const clang::NamespaceDecl& space, FamilyModel& model) {
    for (const clang::Decl* decl : space.decls()) {
      if (const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl)) {
        if (!record->isThisDeclarationADefinition()) continue;
        if (record->getLocation().isMacroID())
          name_holder(*record, model);
        else
          model.classes.push_back(read_class(*record, model));
      } else if (const auto* function = decl->getAsFunction()) {
        if (function->isThisDeclarationADefinition())
          model.functions.push_back(read_function(*function, span(decl->getSourceRange())));
      }
    }
  }

 private:
  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  SourceSpan token(clang::SourceLocation location) const { return parsed_.token(manager_, location); }
  std::string written(SourceSpan where) const { return std::string(parsed_.sources.text(where)); }

  void name_holder(const clang::CXXRecordDecl& holder, FamilyModel& model) const {
    for (Class& one : model.classes)
      if (one.name == holder.getName().str() + "Impl") one.holder = holder.getName().str();
  }

  std::vector<Annotation> read_annotations(const clang::Decl& decl, std::vector<Edit>& edits) const {
    std::vector<Annotation> result;
    for (const AnnotationMacro& macro : annotations(decl, manager_, parsed_)) {
      Annotation annotation{macro.kind, macro.strings, macro.where};
      for (const SourceSpan& expression : macro.expressions) annotation.arguments.push_back(written(expression));
      result.push_back(std::move(annotation));
      SourceSpan gone = macro.where;
      while (gone.end < text_.size() && (text_[gone.end] == ' ' || text_[gone.end] == '\n')) ++gone.end;
      edits.push_back({gone, ""});
    }
    return result;
  }

  /// Where the members that end a struct begin to be private: kept bodies of bases' methods; else its closing brace.
  SourceSpan end_of_public_part(const clang::CXXRecordDecl& record, SourceSpan close) const {
    const clang::AccessSpecDecl* last = nullptr;
    for (const clang::Decl* decl : record.decls())
      if (const auto* access = llvm::dyn_cast<clang::AccessSpecDecl>(decl)) last = access;
    return last && last->getAccess() != clang::AS_public ? token(last->getAccessSpecifierLoc()) : close;
  }

  Class read_class(const clang::CXXRecordDecl& record, FamilyModel& model) {
    Class result;
    result.name = record.getName().str();
    result.where = token(record.getLocation());
    result.annotations = read_annotations(record, model.edits);
    for (const clang::CXXBaseSpecifier& base : record.bases()) {
      const auto* from = base.getType()->getAsCXXRecordDecl();
      if (!from || from->getQualifiedNameAsString() != "modular::Config") continue;
      result.is_config = true;
      const SourceSpan open = token(record.getBraceRange().getBegin());
      model.edits.push_back({{file_, result.where.end, open.begin}, " "});
    }
    std::vector<SourceSpan> cores;
    std::vector<std::vector<const clang::Decl*>> groups;
    for (const clang::Decl* decl : record.decls()) {
      if (decl->isImplicit()) continue;
      const SourceSpan core = span(decl->getSourceRange());
      if (core.file != file_) continue;
      if (!cores.empty() && core.begin < cores.back().end) {
        cores.back().end = std::max(cores.back().end, core.end);
        groups.back().push_back(decl);
      } else {
        cores.push_back(core);
        groups.push_back({decl});
      }
    }
    const SourceSpan open = token(record.getBraceRange().getBegin()), close = token(record.getBraceRange().getEnd());
    const auto slices = own_gaps(text_, {file_, behind_line_comment(text_, open.end), close.begin}, cores);
    for (size_t index = 0; index < groups.size(); ++index) {
      bool first = true;
      for (const clang::Decl* decl : groups[index]) {
        if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl)) {
          result.fields.push_back(read_field(*field, slices[index], first));
          first = false;
        } else if (const auto* function = decl->getAsFunction()) {
          result.functions.push_back(read_function(*function, slices[index]));
        }
      }
    }
    for (const clang::CXXConstructorDecl* constructor : record.ctors())
      if (!constructor->isImplicit()) read_registrations(*constructor, result);
    if (result.is_config) {
      std::string visitor = "\n\n  template <class Visitor>\n  void fields(Visitor&& visit) {\n";
      for (const Field& field : result.fields) visitor += "    visit(\"" + field.name + "\", " + field.name + ");\n";
      visitor += "  }\n";
      const uint32_t next = end_of_public_part(record, close).begin;
      uint32_t at = next;
      while (at > open.end && std::isspace(static_cast<unsigned char>(text_[at - 1]))) --at;
      model.edits.push_back({{file_, at, next}, visitor});
    }
    return result;
  }

  Field read_field(const clang::FieldDecl& decl, SourceSpan slice, bool owns_text) const {
    Field field;
    field.name = decl.getName().str();
    field.type = written(span(decl.getTypeSourceInfo()->getTypeLoc().getSourceRange()));
    field.where = token(decl.getLocation());
    field.text.slice = owns_text ? slice : SourceSpan{slice.file, slice.end, slice.end};
    std::vector<Edit> edits;
    field.annotations = read_annotations(decl, edits);
    if (owns_text) field.text.edits = std::move(edits);  // declarators share their annotations
    return field;
  }

  Function read_function(const clang::FunctionDecl& decl, SourceSpan slice) const {
    Function function;
    function.name = decl.getNameAsString();
    function.is_constructor = llvm::isa<clang::CXXConstructorDecl>(decl);
    function.where = token(decl.getLocation());
    if (!function.is_constructor && decl.getFunctionTypeLoc())
      function.return_type = written(span(decl.getReturnTypeSourceRange()));
    for (const clang::ParmVarDecl* parameter : decl.parameters())
      function.parameters.push_back({parameter->getNameAsString(), parameter_type(*parameter)});
    function.text.push_back({slice, {}});
    if (decl.doesThisDeclarationHaveABody()) function.body = read_body(decl, file_);
    for_each_expr(function.body, [](Expr& expr) { unqualify(expr.type), unqualify(expr.name); });
    return function;
  }

  std::string parameter_type(const clang::ParmVarDecl& parameter) const {
    const SourceSpan whole = span(parameter.getSourceRange()), name = token(parameter.getLocation());
    std::string type = written({file_, whole.begin, parameter.getDeclName() ? name.begin : whole.end});
    while (!type.empty() && std::isspace(static_cast<unsigned char>(type.back()))) type.pop_back();
    return type;
  }

  /// Flattened text stands in a namespace of its own while it is parsed.
  static void unqualify(std::string& name) {
    constexpr std::string_view kExtra = "flattened::";
    for (size_t at; (at = name.find(kExtra)) != std::string::npos;) name.erase(at, kExtra.size());
  }

  static void read_registrations(const clang::CXXConstructorDecl& constructor, Class& result) {
    const auto give = [&](const clang::NamedDecl* member, const clang::Stmt* value) {
      for (Field& field : result.fields)
        if (member && field.name == member->getNameAsString())
          if (const std::string name = registered_name(value); !name.empty()) field.registered_as = name;
    };
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten() && init->isAnyMemberInitializer()) give(init->getAnyMember(), init->getInit());
    if (!constructor.hasBody()) return;
    for (const clang::Stmt* statement : constructor.getBody()->children()) {
      const auto* expr = llvm::dyn_cast_or_null<clang::Expr>(statement);
      if (!expr) continue;
      const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr->IgnoreImplicit());
      if (!call || call->getOperator() != clang::OO_Equal) continue;
      if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(call->getArg(0)->IgnoreParenImpCasts()))
        give(member->getMemberDecl(), call->getArg(1));
    }
  }

  const clang::SourceManager& manager_;
  const Parsed& parsed_;
  uint32_t file_;
  const std::string& text_;
};

/// What only templates of libtorch and of the runtime would find out, whose bodies are not parsed here: whether modules
/// can be made from what their holders are given, and entries from their config.
class HolderChecker : public clang::RecursiveASTVisitor<HolderChecker> {
 public:
  explicit HolderChecker(clang::Sema& sema) : sema_(sema) {}

  bool VisitCXXConstructExpr(clang::CXXConstructExpr* made) {
    check_holder(*made, made->getSourceRange());
    return true;
  }

  /// Members that no initializer is written for.
  bool VisitCXXConstructorDecl(clang::CXXConstructorDecl* constructor) {
    for (const clang::CXXCtorInitializer* member : constructor->inits())
      if (auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(member->getInit());
          made && !member->isWritten() && member->isMemberInitializer())
        check_holder(*made, member->getMember()->getLocation());
    return true;
  }

  bool VisitCXXRecordDecl(clang::CXXRecordDecl* record) {
    const bool is_entry = std::ranges::any_of(record->specific_attrs<clang::AnnotateAttr>(), [](const auto* note) {
      return note->getAnnotation() == "modular.entry";
    });
    if (!is_entry || !record->isThisDeclarationADefinition()) return true;
    for (const clang::CXXConstructorDecl* constructor : record->ctors()) {
      if (constructor->isImplicit() || constructor->isCopyOrMoveConstructor() || constructor->getNumParams() == 0)
        continue;
      const clang::QualType config = constructor->getParamDecl(0)->getType().getNonReferenceType();
      clang::Expr* given = value_of(config.withConst(), clang::VK_LValue, constructor->getLocation());
      check_made(*record, given, constructor->getLocation());
    }
    for (const clang::CXXMethodDecl* method : record->methods()) {
      if (!method->getDeclName().isIdentifier() || method->getName() != "forward" || method->getNumParams() != 1)
        continue;
      const clang::QualType batch = method->getParamDecl(0)->getType();
      const auto* outputs = method->getReturnType()->getAsCXXRecordDecl();
      const bool takes_any = !batch->isReferenceType() || batch.getNonReferenceType().isConstQualified();
      if (method->getAccess() != clang::AS_public || !takes_any || !outputs || outputs->getName() != "Outputs")
        sema_.Diag(method->getLocation(),
                   sema_.getDiagnostics().getCustomDiagID(
                       clang::DiagnosticsEngine::Error,
                       "an entry's forward is public, and is Outputs forward(const Batch& batch)"));
    }
    return true;
  }

 private:
  void check_holder(clang::CXXConstructExpr& made, clang::SourceRange where) {
    const clang::CXXConstructorDecl* constructor = made.getConstructor();
    const clang::CXXRecordDecl* impl = held_by(*constructor->getParent());
    if (!impl || constructor->isCopyOrMoveConstructor()) return;
    const clang::CXXConstructorDecl* origin = constructor;
    while (const auto inherited = origin->getInheritedConstructor()) origin = inherited.getConstructor();
    const bool forwards = origin->getPrimaryTemplate() != nullptr;
    if (!forwards && !origin->isDefaultConstructor()) return;  // from nullptr or a pointer
    llvm::SmallVector<clang::Expr*> arguments;
    for (clang::Expr* argument : made.arguments())
      arguments.push_back(value_of(argument->getType(), argument->getValueKind(), argument->getExprLoc()));
    check_made(*impl, arguments, where);
  }

  clang::Expr* value_of(clang::QualType type, clang::ExprValueKind kind, clang::SourceLocation where) {
    return new (sema_.Context) clang::OpaqueValueExpr(where, type.getNonReferenceType(), kind);
  }

  void check_made(const clang::CXXRecordDecl& impl, llvm::MutableArrayRef<clang::Expr*> arguments,
                  clang::SourceRange where) {
    const auto entity = clang::InitializedEntity::InitializeTemporary(sema_.Context.getRecordType(&impl));
    const auto kind = clang::InitializationKind::CreateDirect(where.getBegin(), where.getBegin(), where.getEnd());
    clang::InitializationSequence sequence(sema_, entity, kind, arguments);
    sequence.Perform(sema_, entity, kind, arguments);  // says what hinders it, a private constructor as well
  }

  clang::Sema& sema_;
};

}  // namespace

FamilyModel read_model(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file, std::string name,
                       std::string prefix) {
  FamilyModel model;
  model.name = std::move(name);
  model.prefix = std::move(prefix);
  model.text = parsed.sources[file].text;
  model.file = file;
  if (const auto* space = flattened_namespace(compiler, parsed, file))
    ModelReader(compiler, parsed, file).read(*space, model);
  return model;
}

void check_holders(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file) {
  compiler.getSema().PerformPendingInstantiations();
  if (const auto* space = flattened_namespace(compiler, parsed, file))
    HolderChecker(compiler.getSema()).TraverseDecl(const_cast<clang::NamespaceDecl*>(space));
}

}  // namespace modgen
