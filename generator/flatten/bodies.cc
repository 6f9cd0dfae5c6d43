// Names and statements of function bodies, for the parts of this stage that move code between them.
#include <clang/AST/ExprCXX.h>

#include "generator/flatten/family.h"
#include "generator/source/slices.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {

MethodsMeant methods_meant(const Entity& entity) {
  return [&entity](const clang::CXXMethodDecl& method) {
    std::vector<const clang::FunctionDecl*> bodies;
    bool known = true;
    for (const Level& level : entity.levels)
      for (const clang::CXXMethodDecl* one : level.symbol->record->methods()) {
        if (one->getDeclName() != method.getDeclName()) continue;
        const clang::FunctionDecl& defined = Specs::defined(*one);
        known &= defined.hasBody();
        bodies.push_back(&defined);
      }
    return known ? bodies : decltype(bodies){};
  };
}

std::set<std::string> names_declared(const clang::FunctionDecl& function) {
  struct Visitor : SyntaxVisitor {
    std::set<std::string> names;
    bool VisitVarDecl(clang::VarDecl* variable) override { return add(*variable); }
    bool VisitBindingDecl(clang::BindingDecl* binding) override { return add(*binding); }
    bool VisitTagDecl(clang::TagDecl* local) override {
      if (const auto* values = llvm::dyn_cast<clang::EnumDecl>(local); values && !values->isScoped())
        for (const clang::EnumConstantDecl* value : values->enumerators()) add(*value);
      return add(*local);
    }
    bool add(const clang::NamedDecl& decl) {
      if (decl.getDeclName().isIdentifier() && decl.getIdentifier()) names.insert(decl.getName().str());
      return true;
    }
  } visitor;
  visitor.visit(&function);
  return std::move(visitor.names);
}

std::vector<std::pair<const clang::Stmt*, SourceSpan>> statement_slices(const Family& family, const clang::Stmt& body) {
  std::vector<std::pair<const clang::Stmt*, SourceSpan>> result;
  const auto* compound = llvm::dyn_cast<clang::CompoundStmt>(&body);
  if (!compound) return result;
  const auto& manager = family.specs().manager();
  const SourceSpan open = family.parsed().token(manager, compound->getLBracLoc()),
                   close = family.parsed().token(manager, compound->getRBracLoc());
  std::vector<SourceSpan> cores;
  std::vector<const clang::Stmt*> statements;
  for (const clang::Stmt* statement : compound->body()) {
    if (llvm::isa<clang::NullStmt>(statement)) continue;
    cores.push_back(family.parsed().span(manager, statement->getSourceRange()));
    statements.push_back(statement);
  }
  const auto slices = own_gaps(family.file_text(open.file), {open.file, open.end, close.begin}, cores);
  for (size_t index = 0; index < slices.size(); ++index)
    result.push_back({index < statements.size() ? statements[index] : nullptr, slices[index]});
  return result;
}

}  // namespace modgen
