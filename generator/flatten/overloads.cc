#include "generator/flatten/overloads.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclFriend.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Sema/Overload.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <functional>
#include <set>

#include "generator/flatten/family.h"
#include "generator/flatten/members.h"
#include "generator/resolve/object_types.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

struct Overload {
  const clang::FunctionDecl* function;
  size_t level = 0;
  bool is_friend = false;
  std::string name() const { return function->getNameAsString(); }
};

/// The function that the class befriends and defines; null for other declarations.
const clang::FunctionDecl* friend_function(const clang::Decl& decl) {
  const auto* granted = llvm::dyn_cast<clang::FriendDecl>(&decl);
  const auto* function = granted && granted->getFriendDecl() ? granted->getFriendDecl()->getAsFunction() : nullptr;
  return function && function->doesThisDeclarationHaveABody() ? function : nullptr;
}

/// The types of a function's arguments, the object of a method first.
std::vector<clang::QualType> argument_types(const clang::FunctionDecl& function) {
  std::vector<clang::QualType> types;
  if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function); method && !method->isStatic())
    types.push_back(function.getASTContext().getRecordType(method->getParent()));
  for (const clang::ParmVarDecl* parameter : function.parameters()) types.push_back(parameter->getType());
  return types;
}

/// The smallest number of arguments, the object of a method included.
size_t least_arguments(const clang::FunctionDecl& function) {
  return argument_types(function).size() - function.getNumParams() + function.getMinRequiredArguments();
}

/// Whether a template's parameter of that type takes everything, as `const T&` does.
bool takes_anything(clang::QualType type) {
  return type.getNonReferenceType().getCanonicalType()->isTemplateTypeParmType();
}

/// Whether C++ may call the operator `one` where `other` is written: `==` for `!=`, `<=>` for the four of an order.
bool is_rewritten(const Overload& one, const Overload& other) {
  switch (other.function->getOverloadedOperator()) {
    case clang::OO_ExclaimEqual:
      return one.function->getOverloadedOperator() == clang::OO_EqualEqual;
    case clang::OO_Less:
    case clang::OO_LessEqual:
    case clang::OO_Greater:
    case clang::OO_GreaterEqual:
      return one.function->getOverloadedOperator() == clang::OO_Spaceship;
    default:
      return false;
  }
}

/// Whether libraries have a template of that name for objects of any class, which an overload for a class replaces.
bool is_library_template(const std::string& name) {
  return name == "swap" || name == "iter_swap" || name == "iter_move";
}

/// The lowest of the levels below `level` whose class has fields; `level` if none has.
size_t first_with_fields(const Entity& entity, size_t level) {
  size_t first = 0;
  while (first < level && entity.levels[first].symbol->record->field_empty()) ++first;
  return first;
}

/// Compares the overloads of one class.
class Ranking {
 public:
  Ranking(const Family& family, const Entity& entity) : family_(family), entity_(entity) {}

  void check(const Overload& one, const Overload& other) const {
    const bool is_same = one.name() == other.name();
    if ((!is_same && !is_rewritten(one, other)) || !may_take_same(*one.function, *other.function)) return;
    // A method hides a base's of its name.
    const bool is_seen_with = one.is_friend || other.is_friend || !is_same;
    if (one.level < other.level && takes_object(other) && is_seen_with)
      reject(
          where(*one.function),
          "C++ prefers this to '" + one.name() + "' of a base, which takes the base; flattened, both take this class",
          "give it the base's parameters, so that it replaces the base's, or another name", other);
    else if (one.level < other.level && hides_operator(one, other))
      reject(where(*one.function),
             "C++ hides the base's '" + one.name() + "' with other parameters here; flattened, libraries may call both",
             "give it the base's parameters, so that it replaces the base's, or add a using-declaration for the base's",
             other);
    else if (is_same && other.level > 0 && one.level >= other.level &&
             is_better_template(*one.function, *other.function))
      reject(entity_.levels[0].symbol->where,
             "C++ passes objects of this class to the template '" + one.name() +
                 "', and flattened, to its overload for the base",
             "define '" + one.name() + "' for this class, too", other);
  }

  /// Whether `one` is an operator of a class and C++ does not find `other`, one of its base, behind it.
  bool hides_operator(const Overload& one, const Overload& other) const {
    const auto is_member = [](const Overload& overload) {
      return !overload.is_friend && llvm::isa<clang::CXXMethodDecl>(overload.function) &&
             overload.function->isOverloadedOperator();
    };
    if (!is_member(one) || !is_member(other) || one.name() != other.name()) return false;
    const auto& declared = entity_.levels[one.level].symbol->record->decls();
    return std::none_of(declared.begin(), declared.end(), [&](const clang::Decl* decl) {
      const auto* kept = llvm::dyn_cast<clang::UsingDecl>(decl);
      return kept && kept->getDeclName() == one.function->getDeclName();
    });
  }

  void check_library(const Overload& one) const {
    const size_t first = first_with_fields(entity_, one.level);
    if (first == one.level || !is_library_template(one.name()) || !takes_object(one)) return;
    reject(entity_.levels[first].symbol->where,
           "libraries call '" + one.name() +
               "' for objects of this class: in C++ their own, and flattened, the base's, which omits the fields of "
               "this class",
           "define '" + one.name() + "' for this class, too", one);
  }

  /// Whether `function`, a template, takes an object of any class where `other` takes the base.
  bool is_better_template(const clang::FunctionDecl& function, const clang::FunctionDecl& other) const {
    const std::vector<clang::QualType> here = argument_types(function), there = argument_types(other);
    for (size_t index = 0; index < std::min(here.size(), there.size()); ++index)
      if (takes_anything(here[index]) && is_object(there[index])) return true;
    return false;
  }

  /// Whether there are arguments that both may take.
  bool may_take_same(const clang::FunctionDecl& one, const clang::FunctionDecl& other) const {
    const std::vector<clang::QualType> here = argument_types(one), there = argument_types(other);
    const size_t least = std::max(least_arguments(one), least_arguments(other));
    if (least > std::min(here.size(), there.size())) return false;
    for (size_t index = 0; index < least; ++index)
      if (!may_take_same(here[index], there[index])) return false;
    return true;
  }

 private:
  bool is_object(clang::QualType type) const {
    const clang::CXXRecordDecl* record = get_class(type.getNonReferenceType());
    return record && std::any_of(entity_.levels.begin(), entity_.levels.end(), [&](const Level& one) {
             return one.symbol->record->getCanonicalDecl() == record->getCanonicalDecl();
           });
  }

  bool takes_object(const Overload& one) const {
    const std::vector<clang::QualType> types = argument_types(*one.function);
    return std::any_of(types.begin(), types.end(), [&](clang::QualType type) { return is_object(type); });
  }

  bool may_take_same(clang::QualType one, clang::QualType other) const {
    one = one.getNonReferenceType().getCanonicalType().getUnqualifiedType();
    other = other.getNonReferenceType().getCanonicalType().getUnqualifiedType();
    if (takes_anything(one) || takes_anything(other)) return true;
    if (is_object(one) || is_object(other))
      return is_object(one) && is_object(other) && one->isPointerType() == other->isPointerType();
    if (one->isDependentType() || other->isDependentType()) return one == other;
    const auto is_number = [](clang::QualType type) { return type->isArithmeticType() || type->isEnumeralType(); };
    return one == other || (is_number(one) && is_number(other)) || converts(one, other) || converts(other, one);
  }

  bool converts(clang::QualType from, clang::QualType to) const {
    clang::Sema& sema = family_.specs().compiler().getSema();
    auto* value = new (sema.Context)
        clang::OpaqueValueExpr(entity_.levels[0].symbol->record->getLocation(), from, clang::VK_LValue);
    return !sema.TryImplicitConversion(value, to, /*SuppressUserConversions=*/false, clang::Sema::AllowedExplicit::None,
                                       /*InOverloadResolution=*/false,
                                       /*CStyle=*/false, /*AllowObjCWritebackConversion=*/false)
                .isBad();
  }

  SourceSpan where(const clang::FunctionDecl& function) const {
    return family_.parsed().token(family_.specs().manager(), function.getLocation());
  }

  void reject(SourceSpan at, std::string message, std::string advice, const Overload& note) const {
    family_.specs().reject(at, std::move(message), std::move(advice),
                           {{Diagnostic::Severity::note, where(*note.function), "the base's overload", "", {}}});
  }

  const Family& family_;
  const Entity& entity_;
};

/// A class that code of `level` in `user` names, as one that a class of the family derives from.
struct Derived {
  const Entity* entity = nullptr;
  size_t level = 0;  // of the named class, above 0
};

Derived find_derived(const Family& family, const Entity& user, const Level& level, const clang::CXXRecordDecl* named) {
  const Symbol* symbol = named ? family.specs().symbol(named) : nullptr;
  if (!symbol || !symbol->is_class()) return {};
  const std::string name = symbol == level.symbol ? user.name : family.name_for(*symbol, level);
  for (const auto& entity : family.entities())
    for (size_t index = 1; index < entity->levels.size(); ++index)
      if (entity->name == name && entity->levels[index].symbol == symbol) return {entity.get(), index};
  return {};
}

/// Whether code of `spec` makes or holds objects of the class.
bool uses(const Spec& spec, const clang::CXXRecordDecl& record) {
  struct Visitor : SyntaxVisitor {
    const clang::CXXRecordDecl* record = nullptr;
    bool found = false;
    bool VisitStmt(clang::Stmt* statement) override {
      const auto* expr = llvm::dyn_cast<clang::Expr>(statement);
      const auto* type = expr && !expr->getType().isNull() ? expr->getType()->getAsCXXRecordDecl() : nullptr;
      found |= type && type->getCanonicalDecl() == record->getCanonicalDecl();
      return !found;
    }
  } visitor;
  visitor.record = &record;
  visitor.visit(spec.space);
  return visitor.found;
}

/// Rejects a friend that the class defines if the family has a function of its name and parameters, too: a friend
/// replaces friends, and a function replaces functions.
void check_friends(const Family& family, const Entity& entity) {
  std::set<std::string> seen;
  for (size_t index = 0; index < entity.levels.size(); ++index) {
    const Level& level = entity.levels[index];
    if (!level.symbol->record) continue;
    for (const clang::FriendDecl* one : level.symbol->record->friends()) {
      const clang::FunctionDecl* befriended = friend_function(*one);
      if (!befriended || !seen.insert(friend_signature(family, entity, index, *one)).second) continue;
      const std::string types = family.parameter_types(*befriended, level, entity);
      for (const auto& other : family.entities()) {
        const Level& there = other->levels.front();
        if (there.symbol->kind != Symbol::Kind::function) continue;
        for (const clang::NamedDecl* decl : there.symbol->decls) {
          const clang::FunctionDecl* function = decl->getAsFunction();
          const bool has_name = befriended->getDeclName().isIdentifier()
                                    ? other->name == befriended->getNameAsString()
                                    : function && function->getDeclName() == befriended->getDeclName();
          if (!has_name || family.parameter_types(*function, there, *other) != types) continue;
          const bool is_own = level.symbol->spec == &family.spec();
          const auto locate = [&](const clang::FunctionDecl& at) {
            return family.parsed().token(family.specs().manager(), at.getLocation());
          };
          const SourceSpan where = is_own                                 ? locate(*befriended)
                                   : there.symbol->spec == &family.spec() ? locate(*function)
                                                                          : entity.cause;
          return family.specs().reject(
              where,
              "'" + other->name + "' would be defined twice in family '" + family.spec().name + "': as a friend in '" +
                  entity.name + "', and as a function outside of it",
              is_own ? "define the friend after its class, as the other one is"
                     : "define this as a friend in its class, as the base does, or give it another name",
              {{Diagnostic::Severity::note, locate(is_own ? *function : *befriended), "the other definition", "", {}}});
        }
      }
    }
  }
}

void check_call_operators(const Family& family, const Entity& user, const Level& level,
                          const clang::CXXRecordDecl& record) {
  std::vector<const clang::FunctionDecl*> templates, functions;
  for (const clang::Decl* decl : record.decls()) {
    if (const auto* inner = llvm::dyn_cast<clang::CXXRecordDecl>(decl);
        inner && inner->isThisDeclarationADefinition() && !inner->isImplicit())
      check_call_operators(family, user, level, *inner);
    const auto* function = llvm::isa<clang::FriendDecl>(decl) ? nullptr : decl->getAsFunction();
    if (function && function->getOverloadedOperator() == clang::OO_Call)
      (llvm::isa<clang::FunctionTemplateDecl>(decl) ? templates : functions).push_back(function);
  }
  for (const clang::FunctionDecl* function : functions)
    for (const clang::ParmVarDecl* parameter : function->parameters()) {
      const Derived derived = find_derived(family, user, level, get_class(parameter->getType().getNonReferenceType()));
      if (!derived.entity) continue;
      const Ranking ranking(family, *derived.entity);
      const bool is_chosen = std::any_of(templates.begin(), templates.end(), [&](const clang::FunctionDecl* one) {
        return ranking.may_take_same(*one, *function) && ranking.is_better_template(*one, *function);
      });
      for (size_t below = 0; is_chosen && below < derived.level; ++below) {
        const Symbol& symbol = *derived.entity->levels[below].symbol;
        if (symbol.spec != level.symbol->spec && !uses(*symbol.spec, record)) continue;
        const SourceSpan where = family.parsed().token(family.specs().manager(), function->getLocation());
        family.specs().reject(symbol.where,
                              "C++ passes objects of this class to the template among the call operators of '" +
                                  record.getNameAsString() + "', and flattened, to the one for the base",
                              "write a class with call operators of its own",
                              {{Diagnostic::Severity::note, where, "the base's overload", "", {}}});
        return;
      }
    }
}

}  // namespace

std::string friend_signature(const Family& family, const Entity& entity, size_t level, const clang::Decl& decl) {
  const clang::FunctionDecl* function = friend_function(decl);
  if (!function) return "";
  const bool is_template = function->getDescribedFunctionTemplate() != nullptr;
  return function->getNameAsString() + (is_template ? "<>(" : "(") +
         family.parameter_types(*function, entity.levels[level], entity) + ")";
}

bool may_take_same(const Family& family, const Entity& entity, const clang::FunctionDecl& one,
                   const clang::FunctionDecl& other) {
  return Ranking(family, entity).may_take_same(one, other);
}

void check_overloads(const Family& family, const Entity& entity, const std::vector<Member>& members) {
  std::vector<Overload> overloads;
  for (const Member& member : members) {
    const clang::FunctionDecl* befriended = friend_function(*member.slice->decls.front());
    const clang::FunctionDecl* method =
        member.kind == Member::Kind::method && member.decl ? member.decl->getAsFunction() : nullptr;
    if (befriended)
      overloads.push_back({befriended, member.level, true});
    else if (method && method->isOverloadedOperator())
      overloads.push_back({method, member.level, false});
  }
  const Ranking ranking(family, entity);
  for (const Overload& one : overloads) {
    if (one.is_friend) ranking.check_library(one);
    for (const Overload& other : overloads)
      if (&one != &other) ranking.check(one, other);
  }
}

void check_overloads(const Family& family) {
  for (const auto& entity : family.entities()) {
    for (const Level& level : entity->levels)
      if (level.symbol->record) check_call_operators(family, *entity, level, *level.symbol->record);
    check_friends(family, *entity);
    const Level& level = entity->levels.front();
    if (level.symbol->kind != Symbol::Kind::function) continue;
    for (const clang::NamedDecl* decl : level.symbol->decls) {
      const clang::FunctionDecl* function = decl->getAsFunction();
      if (!function || !is_library_template(level.symbol->name)) continue;
      for (const clang::ParmVarDecl* parameter : function->parameters())
        if (const Derived derived =
                find_derived(family, *entity, level, get_class(parameter->getType().getNonReferenceType()));
            derived.entity) {
          Ranking(family, *derived.entity).check_library({function, derived.level, true});
          break;
        }
    }
  }
}

}  // namespace modgen
