
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <set>

#include "generator/model/model.h"
#include "generator/resolve/specs.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Repeats checks that libtorch's and the runtime's templates would make; their bodies are not parsed here. Modules
/// must be constructible from their holders' arguments, and entries from their config. Also checks the names that woven
/// calls use.
class Checker : public SyntaxVisitor {
 public:
  explicit Checker(clang::Sema& sema) : sema_(sema) {}

  bool VisitCXXConstructExpr(clang::CXXConstructExpr* construct) override {
    check_holder(*construct, construct->getSourceRange());
    return true;
  }

  /// Rejects declarations with names that woven calls use, and annotations on anything but classes and fields.
  bool VisitNamedDecl(clang::NamedDecl* decl) override {
    for (const auto* note : decl->specific_attrs<clang::AnnotateAttr>())
      if (note->getAnnotation().starts_with("modular.") && !llvm::isa<clang::FieldDecl, clang::CXXRecordDecl>(decl))
        sema_.Diag(decl->getLocation(), sema_.getDiagnostics().getCustomDiagID(
                                            clang::DiagnosticsEngine::Error,
                                            "an annotation cannot mark '%0': it marks a module class or a member"))
            << decl->getNameAsString();
    static const std::set<llvm::StringRef> kSpaces = {"fsdp", "pp", "tp", "Tensor"};
    if (!decl->getDeclName().isIdentifier() || decl->isImplicit()) return true;
    const bool is_space = llvm::isa<clang::TypeDecl, clang::NamespaceAliasDecl>(decl) && kSpaces.count(decl->getName());
    if (is_space || decl->getName() == "tie_parameter")
      sema_.Diag(decl->getLocation(), sema_.getDiagnostics().getCustomDiagID(
                                          clang::DiagnosticsEngine::Error,
                                          "'%0' is a name that the calls modgen inserts use: choose another name"))
          << decl->getName();
    return true;
  }

  /// Checks members without a written initializer.
  bool VisitCXXConstructorDecl(clang::CXXConstructorDecl* constructor) override {
    for (const clang::CXXCtorInitializer* member : constructor->inits())
      if (auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(member->getInit());
          construct && !member->isWritten() && member->isMemberInitializer())
        check_holder(*construct, member->getMember()->getLocation());
    return true;
  }

  bool VisitCXXRecordDecl(clang::CXXRecordDecl* record) override {
    const bool is_entry = std::ranges::any_of(record->specific_attrs<clang::AnnotateAttr>(), [](const auto* note) {
      return annotation_kind(note->getAnnotation()) == AnnotationKind::entry;
    });
    if (!is_entry || !record->isThisDeclarationADefinition()) return true;
    for (const clang::CXXConstructorDecl* constructor : record->ctors()) {
      if (constructor->isImplicit() || constructor->isCopyOrMoveConstructor() || constructor->getNumParams() == 0)
        continue;
      const clang::QualType config = constructor->getParamDecl(0)->getType().getNonReferenceType();
      clang::Expr* given = get_value(config.withConst(), clang::VK_LValue, constructor->getLocation());
      check_construction(*record, given, constructor->getLocation());
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
                       "an entry's forward has to be public, and Outputs forward(const Batch& batch)"));
    }
    return true;
  }

 private:
  void check_holder(clang::CXXConstructExpr& construct, clang::SourceRange where) {
    const clang::CXXConstructorDecl* constructor = construct.getConstructor();
    const clang::CXXRecordDecl* impl = held_by(*constructor->getParent());
    if (!impl || constructor->isCopyOrMoveConstructor()) return;
    const clang::CXXConstructorDecl* origin = constructor;
    while (const auto inherited = origin->getInheritedConstructor()) origin = inherited.getConstructor();
    const bool forwards = origin->getPrimaryTemplate() != nullptr;
    if (!forwards && !origin->isDefaultConstructor()) return;  // constructed from nullptr or a pointer
    llvm::SmallVector<clang::Expr*> arguments;
    for (clang::Expr* argument : construct.arguments())
      arguments.push_back(get_value(argument->getType(), argument->getValueKind(), argument->getExprLoc()));
    check_construction(*impl, arguments, where);
  }

  clang::Expr* get_value(clang::QualType type, clang::ExprValueKind kind, clang::SourceLocation where) {
    return new (sema_.Context) clang::OpaqueValueExpr(where, type.getNonReferenceType(), kind);
  }

  void check_construction(const clang::CXXRecordDecl& impl, llvm::MutableArrayRef<clang::Expr*> arguments,
                          clang::SourceRange where) {
    const auto entity = clang::InitializedEntity::InitializeTemporary(sema_.Context.getRecordType(&impl));
    const auto kind = clang::InitializationKind::CreateDirect(where.getBegin(), where.getBegin(), where.getEnd());
    clang::InitializationSequence sequence(sema_, entity, kind, arguments);
    sequence.Perform(sema_, entity, kind, arguments);  // reports why it fails, including a private constructor
  }

  clang::Sema& sema_;
};

}  // namespace

void check_code(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file) {
  compiler.getSema().PerformPendingInstantiations();
  if (const auto* space = flattened_namespace(compiler, parsed, file)) Checker(compiler.getSema()).visit(space);
}

}  // namespace modgen
