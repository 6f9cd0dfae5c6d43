#include "generator/model/check_code.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <set>

#include "generator/model/model.h"
#include "generator/resolve/specs.h"

namespace modgen {
namespace {

/// What only templates of libtorch and of the runtime would find out, whose bodies are not parsed here: whether modules
/// can be made from what their holders are given, and entries from their config. And names that woven calls need.
class Checker : public clang::RecursiveASTVisitor<Checker> {
 public:
  explicit Checker(clang::Sema& sema) : sema_(sema) {}

  bool VisitCXXConstructExpr(clang::CXXConstructExpr* made) {
    check_holder(*made, made->getSourceRange());
    return true;
  }

  /// What woven calls name must not be found in the family, and what annotations cannot mark is not marked.
  bool VisitNamedDecl(clang::NamedDecl* decl) {
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
      sema_.Diag(decl->getLocation(),
                 sema_.getDiagnostics().getCustomDiagID(clang::DiagnosticsEngine::Error,
                                                        "'%0' is what calls that modgen writes name: use another name"))
          << decl->getName();
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
      clang::Expr* given = get_value(config.withConst(), clang::VK_LValue, constructor->getLocation());
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
      arguments.push_back(get_value(argument->getType(), argument->getValueKind(), argument->getExprLoc()));
    check_made(*impl, arguments, where);
  }

  clang::Expr* get_value(clang::QualType type, clang::ExprValueKind kind, clang::SourceLocation where) {
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

void check_code(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file) {
  compiler.getSema().PerformPendingInstantiations();
  if (const auto* space = flattened_namespace(compiler, parsed, file))
    Checker(compiler.getSema()).TraverseDecl(const_cast<clang::NamespaceDecl*>(space));
}

}  // namespace modgen
