#include "generator/resolve/references.h"

#include <clang/AST/Attr.h>

#include <algorithm>
#include <map>
#include <set>

#include "generator/resolve/object_types.h"
#include "generator/resolve/registrations.h"
#include "generator/source/annotations.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Visits written code, neither implicit code nor template instantiations. The token locations follow clangd's
/// FindTarget.
class Visitor : public SyntaxVisitor {
 public:
  Visitor(const clang::SourceManager& manager, const Parsed& parsed) : manager_(manager), parsed_(parsed) {}
  std::vector<Reference> found;

  bool VisitNamedDecl(clang::NamedDecl* decl) override {
    for (const auto* note : decl->specific_attrs<clang::AnnotateAttr>())
      if (annotation_kind(note->getAnnotation()) == AnnotationKind::replaces) add_marker(*decl, *note);
    if (llvm::isa<clang::NamespaceDecl, clang::UsingDecl, clang::UsingShadowDecl>(decl)) return true;
    if (const auto* alias = llvm::dyn_cast<clang::NamespaceAliasDecl>(decl))
      add_space(*alias, *alias->getNamespace(), alias->getTargetNameLoc());
    if (const auto* directive = llvm::dyn_cast<clang::UsingDirectiveDecl>(decl))
      add_space(*directive, *directive->getNominatedNamespace(), directive->getIdentLocation());
    // A lambda's parameter may have to be renamed when inlined into other code.
    if (llvm::isa<clang::ParmVarDecl>(decl)) {
      const auto* owner = llvm::dyn_cast<clang::CXXMethodDecl>(decl->getDeclContext());
      return !owner || !owner->getParent()->isLambda() || add(decl, decl->getLocation());
    }
    if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(decl)) {
      if (llvm::isa<clang::CXXConstructorDecl>(method)) add(method->getParent(), method->getLocation());
      if (llvm::isa<clang::CXXDestructorDecl>(method))  // the name after the tilde
        add(method->getParent(),
            clang::Lexer::findLocationAfterToken(method->getLocation(), clang::tok::tilde, manager_, {}, false));
    } else {
      add(decl, decl->getLocation());
    }
    return true;
  }
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) override {
    add_config_flag(*expr, *expr->getDecl());
    add_using(*expr->getFoundDecl(), expr->getLocation());
    // Code may also name a static member as a member of the object.
    const bool of_this = !expr->hasQualifier() && expr->getDecl()->isCXXClassMember();
    return add(expr->getDecl(), expr->getLocation(), of_this);
  }
  bool VisitMemberExpr(clang::MemberExpr* expr) override {
    if (is_name(*expr->getBase())) add_config_flag(*expr, *expr->getMemberDecl());
    const clang::Expr* object = expr->getBase()->IgnoreParenImpCasts();
    const clang::QualType type = expr->isArrow() ? object->getType()->getPointeeType() : object->getType();
    const bool is_other_object = !llvm::isa<clang::CXXThisExpr>(object) && !type.isNull();
    return add(expr->getMemberDecl(), expr->getMemberLoc(), expr->isImplicitAccess() && !expr->hasQualifier(),
               is_other_object ? type->getAsCXXRecordDecl() : nullptr);
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) override {
    if (expr->isAssignmentOp()) changed_.insert(expr->getLHS()->IgnoreParenImpCasts());
    return true;
  }
  bool VisitUnaryOperator(clang::UnaryOperator* expr) override {
    if (expr->isIncrementDecrementOp() || expr->getOpcode() == clang::UO_AddrOf)
      changed_.insert(expr->getSubExpr()->IgnoreParenImpCasts());
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    for (unsigned index = 0; callee && !llvm::isa<clang::CXXOperatorCallExpr>(call) && index < call->getNumArgs() &&
                             index < callee->getNumParams();
         ++index)
      parameters_[call->getArg(index)->IgnoreParenImpCasts()] = callee->getParamDecl(index)->getNameAsString();
    if (const auto registration = replaced_registration(*call)) {
      const SourceSpan first = parsed_.token(manager_, call->getBeginLoc()),
                       member = parsed_.span(manager_, call->getArg(0)->getSourceRange());
      const std::string& text = parsed_.sources[member.file].text;
      found.push_back({Reference::Kind::remake,
                       {first.file, first.begin, next_code(text, member.end) + 1},
                       replaced_member(*call)->getMemberDecl(),
                       false,
                       false,
                       nullptr,
                       *registration});
    }
    const clang::StringLiteral* literal = registered_literal(*call);
    if (!literal) return true;
    const SourceSpan where = parsed_.token(manager_, literal->getBeginLoc());
    if (where.file != 0) found.push_back({Reference::Kind::registered, where, call->getDirectCallee()});
    return true;
  }
  bool VisitOverloadExpr(clang::OverloadExpr* expr) override {
    for (const clang::NamedDecl* decl : expr->decls()) {
      add_using(*decl, expr->getNameLoc());
      add(decl->getUnderlyingDecl(), expr->getNameLoc());
    }
    return true;
  }
  bool VisitDesignatedInitExpr(clang::DesignatedInitExpr* expr) override {
    for (const auto& designator : expr->designators())
      if (designator.isFieldDesignator() && designator.getFieldDecl())
        add(designator.getFieldDecl(), designator.getFieldLoc());
    return true;
  }
  bool VisitUsingDecl(clang::UsingDecl* decl) override {
    for (const auto* shadow : decl->shadows()) add(shadow->getTargetDecl(), decl->getNameInfo().getLoc());
    return true;
  }
  bool TraverseConstructorInitializer(clang::CXXCtorInitializer* init) override {
    if (init->isWritten() && init->isAnyMemberInitializer()) add(init->getAnyMember(), init->getMemberLocation());
    return SyntaxVisitor::TraverseConstructorInitializer(init);
  }

  bool VisitTagTypeLoc(clang::TagTypeLoc loc) override { return add(loc.getDecl(), loc.getNameLoc()); }
  bool VisitTypedefTypeLoc(clang::TypedefTypeLoc loc) override {
    return add(loc.getTypedefNameDecl(), loc.getNameLoc());
  }
  bool VisitUsingTypeLoc(clang::UsingTypeLoc loc) override {
    add_using(*loc.getFoundDecl(), loc.getNameLoc());
    return add(loc.getFoundDecl()->getTargetDecl(), loc.getNameLoc());
  }
  bool VisitInjectedClassNameTypeLoc(clang::InjectedClassNameTypeLoc loc) override {
    return add(loc.getDecl(), loc.getNameLoc());
  }
  bool VisitTemplateSpecializationTypeLoc(clang::TemplateSpecializationTypeLoc loc) override {
    return add(loc.getTypePtr()->getTemplateName().getAsTemplateDecl(), loc.getTemplateNameLoc());
  }
  bool VisitDeducedTemplateSpecializationTypeLoc(clang::DeducedTemplateSpecializationTypeLoc loc) override {
    return add(loc.getTypePtr()->getTemplateName().getAsTemplateDecl(), loc.getTemplateNameLoc());
  }
  bool TraverseTemplateArgumentLoc(const clang::TemplateArgumentLoc& loc) override {
    const auto& argument = loc.getArgument();
    if (argument.getKind() == clang::TemplateArgument::Template)
      add(argument.getAsTemplate().getAsTemplateDecl(), loc.getTemplateNameLoc());
    return SyntaxVisitor::TraverseTemplateArgumentLoc(loc);
  }
  bool TraverseNestedNameSpecifierLoc(clang::NestedNameSpecifierLoc loc) override {
    for (auto part = loc; part; part = part.getPrefix()) {
      const clang::NestedNameSpecifier* specifier = part.getNestedNameSpecifier();
      const clang::NamespaceAliasDecl* alias = specifier->getAsNamespaceAlias();
      if (alias && is_library(*alias->getNamespace())) {
        add(alias, part.getLocalBeginLoc());
      } else if (const clang::NamespaceDecl* space = alias ? alias->getNamespace() : specifier->getAsNamespace()) {
        const SourceSpan first = parsed_.token(manager_, part.getLocalBeginLoc());
        const SourceSpan last = parsed_.token(manager_, part.getLocalEndLoc());
        if (first.file != 0) found.push_back({Reference::Kind::qualifier, {first.file, first.begin, last.end}, space});
      }
    }
    return SyntaxVisitor::TraverseNestedNameSpecifierLoc(loc);
  }

 private:
  bool add(const clang::NamedDecl* target, clang::SourceLocation location, bool of_this = false,
           const clang::CXXRecordDecl* object = nullptr) {
    if (!target || location.isInvalid() || !target->getDeclName()) return true;
    if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(target))
      if (const auto* pattern = function->getTemplateInstantiationPattern()) target = pattern;
    // Only declarations of specs are ever renamed, removed or replaced.
    if (is_library(*target)) return true;
    const SourceSpan where = parsed_.token(manager_, location);
    if (where.file == 0) return true;
    const std::string_view spelled = parsed_.sources.text(where);
    const bool in_body = target->getDeclName().isIdentifier() && spelled != std::string_view(target->getName());
    const bool member = target->isCXXClassMember() && !llvm::isa<clang::CXXRecordDecl>(target);
    found.push_back(
        {member ? Reference::Kind::member : Reference::Kind::name, where, target, of_this, in_body, object});
    return true;
  }

  void add_space(const clang::Decl& decl, const clang::NamespaceDecl& space, clang::SourceLocation location) {
    const SourceSpan where = parsed_.token(manager_, location);
    if (decl.getParentFunctionOrMethod() && where.file != 0) found.push_back({Reference::Kind::space, where, &space});
  }

  /// Adds `found` if it is a using-declaration's name for a library's declaration.
  void add_using(const clang::NamedDecl& found, clang::SourceLocation location) {
    const auto* shadow = llvm::dyn_cast<clang::UsingShadowDecl>(&found);
    if (shadow && is_library(*shadow->getTargetDecl())) add(shadow->getIntroducer(), location);
  }

  bool is_library(const clang::NamedDecl& decl) const {
    return parsed_.index_of(manager_.getFileID(manager_.getFileLoc(decl.getLocation()))) == 0;
  }

  void add_marker(const clang::NamedDecl& decl, const clang::AnnotateAttr& note) {
    SourceSpan where = parsed_.span(manager_, manager_.getExpansionRange(note.getLocation()).getAsRange());
    if (where.file == 0) return;
    where.end = next_code(parsed_.sources[where.file].text, where.end);
    found.push_back({Reference::Kind::marker, where, &decl});
  }

  /// Whether `expr` is a name such as `config`, `this->config` or `config.text_config`: reading it has no side effects.
  static bool is_name(const clang::Expr& expr) {
    const clang::Expr* bare = expr.IgnoreParenImpCasts();
    if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(bare)) return is_name(*member->getBase());
    return llvm::isa<clang::DeclRefExpr, clang::CXXThisExpr>(bare);
  }

  void add_config_flag(const clang::Expr& expr, const clang::ValueDecl& target) {
    const auto* owner = llvm::dyn_cast<clang::CXXRecordDecl>(target.getDeclContext());
    const auto* variable = llvm::dyn_cast<clang::VarDecl>(&target);
    if (!owner || !target.getType()->isBooleanType() || !(llvm::isa<clang::FieldDecl>(target) || variable)) return;
    const SourceSpan where = parsed_.span(manager_, expr.getSourceRange());
    if (where.file == 0 || expr.getBeginLoc().isMacroID() || !is_config(*owner)) return;
    const auto parameter = parameters_.find(&expr);
    found.push_back({Reference::Kind::config_flag,
                     where,
                     &target,
                     false,
                     false,
                     nullptr,
                     {},
                     parameter == parameters_.end() ? "" : parameter->second,
                     changed_.count(&expr) != 0});
  }

  const clang::SourceManager& manager_;
  const Parsed& parsed_;
  // For expressions inside the visited ones; looked up, never iterated.
  std::map<const clang::Expr*, std::string> parameters_;
  std::set<const clang::Expr*> changed_;
};

}  // namespace

std::vector<Reference> collect_references(const clang::NamespaceDecl& space, const clang::SourceManager& manager,
                                          const Parsed& parsed) {
  Visitor visitor(manager, parsed);
  visitor.visit(&space);
  auto& found = visitor.found;
  std::stable_sort(found.begin(), found.end(), [](const Reference& a, const Reference& b) {
    return std::tie(a.where.file, a.where.begin, b.where.end) < std::tie(b.where.file, b.where.begin, a.where.end);
  });
  found.erase(std::unique(found.begin(), found.end(),
                          [](const Reference& a, const Reference& b) {
                            return a.where.file == b.where.file && a.where.begin == b.where.begin && a.kind == b.kind &&
                                   a.target == b.target;
                          }),
              found.end());
  return found;
}

std::set<std::string> names_called_by_arguments(const clang::NamespaceDecl& space) {
  struct : SyntaxVisitor {
    std::set<std::string> names;
    bool VisitOverloadExpr(clang::OverloadExpr* expr) override {
      const auto* call = llvm::dyn_cast<clang::UnresolvedLookupExpr>(expr);
      if (call && call->requiresADL() && call->getName().isIdentifier()) names.insert(call->getName().getAsString());
      return true;
    }
  } visitor;
  visitor.visit(&space);
  return visitor.names;
}

}  // namespace modgen
