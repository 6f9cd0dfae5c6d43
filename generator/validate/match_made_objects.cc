// Objects that libraries make of the arguments that code passes them.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Initialization.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "generator/resolve/object_types.h"
#include "generator/validate/match.h"

namespace modgen {
namespace {

using llvm::dyn_cast;

/// A value of a type and a category, as which an argument reaches a constructor.
struct Passed {
  clang::QualType type;
  clang::ExprValueKind kind;
};

struct Made {
  clang::QualType type;
  std::vector<Passed> arguments;
};

/// The type that a class of a library calls `name`; null if it has none.
clang::QualType member_type(const clang::CXXRecordDecl& record, llvm::StringRef name) {
  clang::ASTContext& context = record.getASTContext();
  for (const clang::NamedDecl* one : record.lookup(&context.Idents.get(name)))
    if (const auto* type = dyn_cast<clang::TypeDecl>(one)) return context.getTypeDeclType(type);
  return {};
}

bool is_iterator(clang::QualType type) {
  const clang::CXXRecordDecl* record = type->getAsCXXRecordDecl();
  return record && record->getName().ends_with("iterator");
}

std::vector<Passed> passed(llvm::ArrayRef<const clang::Expr*> arguments) {
  std::vector<Passed> result;
  for (const clang::Expr* one : arguments)
    if (!llvm::isa<clang::CXXDefaultArgExpr>(one)) {
      const bool is_moved = one->isXValue() || one->isPRValue();
      result.push_back({one->getType(), is_moved ? clang::VK_XValue : clang::VK_LValue});
    }
  return result;
}

/// The types in `std::tuple<…>`, as std::piecewise_construct passes them.
std::vector<Passed> elements_of_tuple(clang::QualType type) {
  std::vector<Passed> result;
  const auto* tuple =
      llvm::dyn_cast_or_null<clang::ClassTemplateSpecializationDecl>(type.getNonReferenceType()->getAsCXXRecordDecl());
  if (!tuple || tuple->getName() != "tuple") return result;
  for (const clang::QualType one : get_types(tuple->getTemplateArgs()[0].getPackAsArray()))
    result.push_back({one.getNonReferenceType(), one->isLValueReferenceType() ? clang::VK_LValue : clang::VK_XValue});
  return result;
}

void add_made_by_map(clang::QualType mapped, std::vector<Passed> arguments, std::vector<Made>& made) {
  if (arguments.size() == 2) made.push_back({mapped, {arguments[1]}});
  if (arguments.size() == 3 && arguments[0].type->getAsCXXRecordDecl()) {  // std::piecewise_construct
    std::vector<Passed> second = elements_of_tuple(arguments[2].type);
    made.push_back({mapped, std::move(second)});
  }
}

/// Adds the objects that the method `name` of a container makes.
void add_made_by_method(const clang::CXXMethodDecl& method, llvm::StringRef name, std::vector<Passed> arguments,
                        std::vector<Made>& made) {
  const clang::CXXRecordDecl& container = *method.getParent();
  const clang::QualType value = member_type(container, "value_type"), mapped = member_type(container, "mapped_type");
  const auto without_first = [&] {
    if (!arguments.empty()) arguments.erase(arguments.begin());
  };
  if (container.getName() == "variant" && name == "emplace") {
    const auto* given = method.getTemplateSpecializationArgs();
    if (given && given->size() > 0 && given->get(0).getKind() == clang::TemplateArgument::Type)
      made.push_back({given->get(0).getAsType(), std::move(arguments)});
    return;
  }
  if (name == "try_emplace" && !mapped.isNull()) {
    if (!arguments.empty() && is_iterator(arguments[0].type)) without_first();
    without_first();
    made.push_back({mapped, std::move(arguments)});
  } else if (name == "operator[]" && !mapped.isNull()) {
    made.push_back({mapped, {}});
  } else if (name == "resize" && arguments.size() == 1 && !value.isNull()) {
    made.push_back({value, {}});
  } else if (name.starts_with("emplace") && !value.isNull()) {
    static const std::set<std::string_view> by_position = {"vector", "deque", "list"};
    const bool is_at = name == "emplace_hint" || name == "emplace_after" ||
                       (name == "emplace" && by_position.contains(std::string_view(container.getName())));
    if (is_at) without_first();
    if (mapped.isNull())
      made.push_back({value, std::move(arguments)});
    else
      add_made_by_map(mapped, std::move(arguments), made);
  }
}

/// The objects that the library function which `expr` calls makes of its arguments.
std::vector<Made> made_by(const clang::Expr& expr) {
  std::vector<Made> made;
  if (const auto* construct = dyn_cast<clang::CXXConstructExpr>(&expr)) {
    const clang::CXXRecordDecl& container = *construct->getConstructor()->getParent();
    const clang::QualType value = member_type(container, "value_type");
    std::vector<Passed> arguments = passed({construct->getArgs(), construct->getNumArgs()});
    if (value.isNull() || arguments.empty()) return made;
    const clang::CXXRecordDecl* first = arguments[0].type->getAsCXXRecordDecl();
    if (first && first->getName() == "in_place_t") {
      arguments.erase(arguments.begin());
      made.push_back({value, std::move(arguments)});
    } else if (arguments.size() == 1 && arguments[0].type->isIntegerType() && container.getName() != "optional") {
      made.push_back({value, {}});
    }
    return made;
  }
  const auto* call = dyn_cast<clang::CallExpr>(&expr);
  const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
  if (!callee) return made;
  std::vector<Passed> arguments = passed({call->getArgs(), call->getNumArgs()});
  if (const auto* method = dyn_cast<clang::CXXMethodDecl>(callee)) {
    if (llvm::isa<clang::CXXOperatorCallExpr>(call)) arguments.erase(arguments.begin());
    add_made_by_method(*method, method->getNameAsString(), std::move(arguments), made);
    return made;
  }
  const auto* given = callee->getTemplateSpecializationArgs();
  const std::string name = callee->getNameAsString();
  static const std::set<std::string_view> kMakers = {"make_unique", "make_shared", "allocate_shared", "construct_at"};
  if (!given || given->size() == 0 || given->get(0).getKind() != clang::TemplateArgument::Type ||
      !kMakers.contains(name))
    return made;
  if (name.starts_with("allocate") || name == "construct_at") arguments.erase(arguments.begin());
  if (!given->get(0).getAsType()->isArrayType()) made.push_back({given->get(0).getAsType(), std::move(arguments)});
  return made;
}

struct Construction {
  bool is_possible = false;
  const clang::CXXConstructorDecl* constructor = nullptr;  // null if it is an aggregate's
};

Construction construct(const Made& made, clang::SourceLocation at, clang::Sema& sema) {
  llvm::SmallVector<clang::Expr*> arguments;
  for (const Passed& one : made.arguments)
    arguments.push_back(new (sema.Context) clang::OpaqueValueExpr(at, one.type, one.kind));
  const auto entity = clang::InitializedEntity::InitializeTemporary(made.type.getUnqualifiedType());
  const auto kind = arguments.empty() ? clang::InitializationKind::CreateValue(at, at, at)
                                      : clang::InitializationKind::CreateDirect(at, at, at);
  clang::Sema::SFINAETrap errors(sema);
  clang::InitializationSequence sequence(sema, entity, kind, arguments);
  Construction result{!sequence.Failed() && !errors.hasErrorOccurred()};
  for (const auto& step : sequence.steps())
    if (result.is_possible && step.Kind == clang::InitializationSequence::SK_ConstructorInitialization) {
      result.constructor = dyn_cast<clang::CXXConstructorDecl>(step.Function.Function);
      if (result.constructor && result.constructor->isDeleted()) return {};
    }
  return result;
}

bool is_known(const Made& made) {
  return !made.type->isDependentType() && !made.type->isReferenceType() &&
         std::ranges::none_of(made.arguments, [](const Passed& one) {
           return one.type.isNull() || one.type->isDependentType() || one.type->isVoidType() ||
                  one.type->isPlaceholderType();
         });
}

}  // namespace

bool Match::made_objects(const clang::Expr& flattened, const clang::Expr& spec, const BindingScope& scope) {
  const clang::FunctionDecl* callee = nullptr;
  if (const auto* call = dyn_cast<clang::CallExpr>(&spec)) callee = call->getDirectCallee();
  if (const auto* made = dyn_cast<clang::CXXConstructExpr>(&spec)) callee = made->getConstructor();
  if (!callee || is_of_spec(*callee)) return true;
  const std::vector<Made> here = made_by(flattened), there = made_by(spec);
  if (here.size() != there.size()) return true;
  clang::Sema& sema = counterparts_.family().specs().compiler().getSema();
  for (size_t index = 0; index < here.size(); ++index) {
    std::vector<const clang::CXXRecordDecl*> classes;
    add_held(there[index].type, classes);
    if (classes.empty() || !is_known(here[index]) || !is_known(there[index])) continue;
    const Construction one = construct(here[index], flattened.getBeginLoc(), sema),
                       other = construct(there[index], spec.getBeginLoc(), sema);
    if (!other.is_possible) continue;
    const std::string type = counterparts_.type_of_flattened(here[index].type);
    if (!one.is_possible)
      return differs(flattened, "a library makes a '" + type + "' here, and it has no constructor for these arguments",
                     "give it one, or redefine this code");
    if (one.constructor && other.constructor && !same_constructor(*one.constructor, *other.constructor, scope))
      return differs(flattened, "a library makes a '" + type + "' here, by another constructor than in the spec",
                     "give the constructor that '" + type + "' adds other parameters, or redefine this code");
  }
  return true;
}

}  // namespace modgen
