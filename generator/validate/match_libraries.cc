// Uses of classes and closures of specs by templates of libraries: which of their functions these call, and which
// constructors they choose.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>
#include <functional>

#include "generator/flatten/implicit_members.h"
#include "generator/validate/match.h"

namespace modgen {
namespace {

using llvm::dyn_cast;

using IsOfSpec = std::function<bool(const clang::Decl&)>;

/// The functions of specs that instances of a library's templates name, as far as Clang has read their bodies: those
/// that are constexpr.
class NamedByLibrary {
 public:
  explicit NamedByLibrary(IsOfSpec is_of_spec) : is_of_spec_(std::move(is_of_spec)) {}

  std::vector<const clang::FunctionDecl*> found;

  void add(const clang::Decl& decl) {
    if (!seen_.insert(decl.getCanonicalDecl()).second) return;
    const auto* function = dyn_cast<clang::FunctionDecl>(&decl);
    if (function && is_of_spec_(*function)) return found.push_back(function);
    if (!involves_specs(decl)) return;
    if (const auto* variable = dyn_cast<clang::VarDecl>(&decl)) return visit(variable->getInit());
    const clang::FunctionDecl* definition = nullptr;
    if (!function || !function->getBody(definition)) return;
    if (const auto* constructor = dyn_cast<clang::CXXConstructorDecl>(definition))
      for (const clang::CXXCtorInitializer* init : constructor->inits()) visit(init->getInit());
    visit(definition->getBody());
  }

  /// Whether template arguments of the declaration, or of what it is a member of, are classes or closures of specs.
  bool involves_specs(const clang::Decl& decl) const {
    if (const auto* function = dyn_cast<clang::FunctionDecl>(&decl))
      if (const auto* arguments = function->getTemplateSpecializationArgs();
          arguments && involves(arguments->asArray()))
        return true;
    if (const auto* variable = dyn_cast<clang::VarTemplateSpecializationDecl>(&decl);
        variable && involves(variable->getTemplateArgs().asArray()))
      return true;
    for (const clang::DeclContext* around = decl.getDeclContext(); around; around = around->getParent()) {
      if (const auto* record = dyn_cast<clang::ClassTemplateSpecializationDecl>(around);
          record && involves(record->getTemplateArgs().asArray()))
        return true;
      if (const auto* function = dyn_cast<clang::FunctionDecl>(around)) return involves_specs(*function);
    }
    return false;
  }

 private:
  bool involves(llvm::ArrayRef<clang::TemplateArgument> arguments) const {
    return std::any_of(arguments.begin(), arguments.end(), [&](const clang::TemplateArgument& argument) {
      switch (argument.getKind()) {
        case clang::TemplateArgument::Type:
          return involves(argument.getAsType());
        case clang::TemplateArgument::Pack:
          return involves(argument.getPackAsArray());
        case clang::TemplateArgument::Declaration:
          return is_of_spec_(*argument.getAsDecl());
        default:
          return false;
      }
    });
  }
  bool involves(clang::QualType type) const {
    while (!type->getPointeeType().isNull()) type = type->getPointeeType();
    if (const auto* array = type->getAsArrayTypeUnsafe()) return involves(array->getElementType());
    if (const auto* function = type->getAs<clang::FunctionProtoType>())
      return involves(function->getReturnType()) ||
             std::any_of(function->param_type_begin(), function->param_type_end(),
                         [&](clang::QualType one) { return involves(one); });
    const clang::TagDecl* tag = type->getAsTagDecl();
    if (!tag) return false;
    const auto* special = dyn_cast<clang::ClassTemplateSpecializationDecl>(tag);
    return is_of_spec_(*tag) || (special && involves(special->getTemplateArgs().asArray()));
  }

  void visit(const clang::Stmt* statement) {
    if (!statement) return;
    if (const auto* name = dyn_cast<clang::DeclRefExpr>(statement)) add(*name->getDecl());
    if (const auto* member = dyn_cast<clang::MemberExpr>(statement)) add(*member->getMemberDecl());
    if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(statement)) add(*construct->getConstructor());
    if (const auto* closure = dyn_cast<clang::LambdaExpr>(statement)) visit(closure->getBody());
    for (const clang::Stmt* child : statement->children()) visit(child);
  }

  IsOfSpec is_of_spec_;
  std::set<const clang::Decl*> seen_;
};

const clang::FunctionDecl* get_callee(const clang::Expr& expr) {
  if (const auto* call = dyn_cast<clang::CallExpr>(&expr)) return call->getDirectCallee();
  const auto* construct = dyn_cast<clang::CXXConstructExpr>(&expr);
  return construct ? construct->getConstructor() : nullptr;
}

/// Which of them libraries use depends on what a class consists of.
bool is_special(const clang::FunctionDecl& function) { return special_member(&function) != SpecialMember::none; }

}  // namespace

bool Match::libraries(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope) {
  const clang::FunctionDecl *here = get_callee(flattened), *there = get_callee(spec);
  if (!here || !there || is_of_spec(*here) || is_of_spec(*there)) return true;
  const auto is_of_spec_decl = [this](const clang::Decl& decl) { return is_of_spec(decl); };
  NamedByLibrary named_here(is_of_spec_decl), named_there(is_of_spec_decl);
  if (!named_here.involves_specs(*here) || !named_there.involves_specs(*there)) return true;
  named_here.add(*here);
  named_there.add(*there);
  const bool redefined = redefined_;
  const auto differs_in = [&](const clang::FunctionDecl& function) {
    return differs(flattened,
                   "a library calls '" + function.getNameAsString() + "' here, and in the spec another function");
  };
  for (const clang::FunctionDecl* one : named_here.found) {
    bool is_named = is_special(*one);
    for (const clang::FunctionDecl* other : named_there.found) {
      if (!same_function(*one, *other, scope)) continue;
      is_named = true;
      if (!same_parameters(*one, *other, scope)) continue;
      const bool same = instances(*one, *other, scope);
      redefined_ = redefined;
      if (!same) return false;
    }
    if (!is_named) return differs_in(*one);
  }
  for (const clang::FunctionDecl* other : named_there.found)
    if (!is_special(*other) && !llvm::isa<clang::CXXConstructorDecl>(other) &&
        std::ranges::none_of(named_here.found,
                             [&](const clang::FunctionDecl* one) { return same_function(*one, *other, scope); }))
      return differs_in(*other);
  return true;
}

bool Match::same_callee(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope) {
  const auto get_function = [](const clang::Expr& conversion) -> const clang::FunctionDecl* {
    if (const auto* call = dyn_cast<clang::CXXMemberCallExpr>(&conversion)) return call->getMethodDecl();
    const auto* construct = dyn_cast<clang::CXXConstructExpr>(&conversion);
    return construct ? construct->getConstructor() : nullptr;
  };
  const clang::FunctionDecl *here = get_function(flattened), *there = get_function(spec);
  if (!here || !there) return true;
  if (!same_function(*here, *there, scope))
    return differs(flattened, "this is converted by another '" + here->getNameAsString() + "' than in the spec");
  return libraries(flattened, spec, scope) && made_objects(flattened, spec, scope);
}

bool Match::same_parameters(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec,
                            const BindingScope& scope) const {
  return std::ranges::equal(flattened.parameters(), spec.parameters(),
                            [&](const clang::ParmVarDecl* one, const clang::ParmVarDecl* other) {
                              return counterparts_.type_of_flattened(one->getType()) ==
                                     counterparts_.type_of_spec(other->getType(), scope.context);
                            });
}

bool Match::is_of_spec(const clang::Decl& decl) const {
  const clang::Decl* pattern = &decl;
  if (const auto* function = dyn_cast<clang::FunctionDecl>(&decl))
    if (const auto* from = function->getTemplateInstantiationPattern()) pattern = from;
  return counterparts_.locate(pattern->getLocation()).file != 0;
}

bool Match::same_function(const clang::FunctionDecl& flattened, const clang::FunctionDecl& spec,
                          const BindingScope& scope) const {
  if (is_of_spec(flattened) != is_of_spec(spec))  // of a library's class that replaces one of a spec
    return llvm::isa<clang::CXXConstructorDecl>(flattened) && llvm::isa<clang::CXXConstructorDecl>(spec);
  if (!is_of_spec(spec)) return true;
  const auto place_of = [](const clang::FunctionDecl& function) {
    const clang::FunctionDecl* pattern = function.getTemplateInstantiationPattern();
    return (pattern ? *pattern : function).getLocation();
  };
  const SourceSpan from = counterparts_.origin(place_of(flattened)), where = counterparts_.locate(place_of(spec));
  if (from.file == where.file && from.begin == where.begin) return true;
  if (const auto* method = dyn_cast<clang::CXXMethodDecl>(&spec);
      method && method->getParent()->getParentFunctionOrMethod())
    return false;  // of a closure or a class in a function
  const auto* constructor = dyn_cast<clang::CXXConstructorDecl>(&flattened);
  const auto* other = dyn_cast<clang::CXXConstructorDecl>(&spec);
  if (constructor && other) return same_constructor(*constructor, *other, scope);
  return counterparts_.is_meant(flattened, spec, scope.context, /*exactly=*/false);
}

bool Match::same_constructor(const clang::CXXConstructorDecl& flattened, const clang::CXXConstructorDecl& spec,
                             const BindingScope& scope) const {
  const auto get_written = [](const clang::CXXConstructorDecl* constructor) {
    while (const auto inherited = constructor->getInheritedConstructor()) constructor = inherited.getConstructor();
    const clang::FunctionDecl* pattern = constructor->getTemplateInstantiationPattern();
    return pattern ? pattern->getCanonicalDecl() : constructor->getCanonicalDecl();
  };
  const clang::FunctionDecl *here = get_written(&flattened), *there = get_written(&spec);
  if (here->isImplicit() || there->isImplicit() || is_special(flattened) || !is_of_spec(*there)) return true;
  const auto stands_for_it = [&](const clang::FunctionDecl& one) {
    const clang::NamedDecl* from = counterparts_.origin(one);
    return (from && counterparts_.locate(from->getLocation()) == counterparts_.locate(there->getLocation())) ||
           same_parameters(one, *there, scope);
  };
  if (stands_for_it(*here)) return true;
  // A constructor of the family replaces those of bases that the class does not inherit.
  const auto& declared = flattened.getParent()->decls();
  return std::none_of(declared.begin(), declared.end(), [&](const clang::Decl* decl) {
    const clang::FunctionDecl* one = decl->getAsFunction();
    return one && llvm::isa<clang::CXXConstructorDecl>(one) && !one->isImplicit() && stands_for_it(*one);
  });
}

}  // namespace modgen
