#include "generator/flatten/special_members.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclFriend.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "generator/flatten/family.h"
#include "generator/flatten/library_effects.h"
#include "generator/flatten/side_effects.h"
#include "generator/resolve/object_types.h"
#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Finds code that assigns or swaps all of an object of the class which may be a base's part, such as `*this`.
class WholeAssignments : public SyntaxVisitor {
 public:
  explicit WholeAssignments(const clang::CXXRecordDecl& record) : record_(record) {}
  const clang::Expr* found = nullptr;

  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* call) override {
    if (call->getOperator() == clang::OO_Equal) check(*call, *call->getArg(0));
    return true;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    if (!callee || !callee->isInStdNamespace() || !callee->getDeclName().isIdentifier()) return true;
    if (callee->getName() != "swap" && callee->getName() != "exchange") return true;
    for (const clang::Expr* argument : call->arguments()) check(*call, *argument);
    return true;
  }

 private:
  void check(const clang::Expr& code, const clang::Expr& object) {
    const clang::Expr* bare = object.IgnoreParenImpCasts();
    if (!found && bare->isLValue() && bare->getType()->getAsCXXRecordDecl() == &record_ && !has_exact_class(*bare))
      found = &code;
  }
  const clang::CXXRecordDecl& record_;
};

/// Such code in a method of the class; null if there is none.
const clang::Expr* find_whole_assignment(const clang::CXXRecordDecl& record) {
  WholeAssignments assignments(record);
  for (const clang::Stmt* body : get_method_bodies(record)) assignments.visit(body);
  return assignments.found;
}

/// Finds code that moves an object of one of the classes, or may do so in a template.
class Moves : public SyntaxVisitor {
 public:
  explicit Moves(const Entity& entity) : entity_(entity) {}
  const clang::Stmt* found = nullptr;

  bool VisitStmt(clang::Stmt* statement) override {
    const auto* expr = llvm::dyn_cast<clang::Expr>(statement);
    if (expr && expr->isXValue() && !llvm::isa<clang::MaterializeTemporaryExpr>(expr)) add(*expr, expr->getType());
    return !found;
  }
  bool VisitCallExpr(clang::CallExpr* call) override {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    const bool swaps = callee && callee->isInStdNamespace() && callee->getDeclName().isIdentifier() &&
                       (callee->getName() == "swap" || callee->getName() == "exchange");
    for (unsigned index = 0; swaps && index < call->getNumArgs(); ++index) add(*call, call->getArg(index)->getType());
    return !found;
  }
  bool VisitOverloadExpr(clang::OverloadExpr* name) override {
    const std::string text = name->getName().getAsString();
    if (text == "move" || text == "forward" || text == "swap" || text == "exchange") found = name;
    return !found;
  }

 private:
  void add(const clang::Stmt& code, clang::QualType type) {
    const auto* record = type.getNonReferenceType()->getAsCXXRecordDecl();
    const bool is_one = record && std::any_of(entity_.levels.begin(), entity_.levels.end(), [&](const Level& level) {
                          return level.symbol->record->getCanonicalDecl() == record->getCanonicalDecl();
                        });
    if (is_one || type->isDependentType()) found = &code;
  }
  const Entity& entity_;
};

/// Code of the specs that a spec sees that moves an object of the entity's classes; null if there is none.
const clang::Stmt* find_move(const Entity& entity, const Spec& spec, std::set<const Spec*>& seen) {
  if (!seen.insert(&spec).second) return nullptr;
  Moves moves(entity);
  if (spec.space) moves.visit(spec.space);
  const clang::Stmt* found = moves.found;
  for (const Spec* one : spec.includes)
    if (!found) found = find_move(entity, *one, seen);
  return found;
}

/// Whether an object of that type is copied by code of a spec.
bool has_own_copies(clang::QualType type) {
  std::vector<const clang::CXXRecordDecl*> held;
  add_held(type, held);
  return std::any_of(held.begin(), held.end(), [](const clang::CXXRecordDecl* one) {
    const bool is_own = std::any_of(one->method_begin(), one->method_end(), [](const clang::CXXMethodDecl* method) {
      const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(method);
      const bool copies = constructor ? constructor->isCopyOrMoveConstructor()
                                      : method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator();
      return copies && method->isUserProvided();
    });
    return is_own || std::any_of(one->field_begin(), one->field_end(),
                                 [](const clang::FieldDecl* field) { return has_own_copies(field->getType()); });
  });
}

struct Special {
  enum class Kind { copies, moves, assigns, compares, destroys };
  const clang::FunctionDecl* function;
  Kind kind;
};

bool is_comparison(const clang::FunctionDecl& function) {
  switch (function.getOverloadedOperator()) {
    case clang::OO_EqualEqual:
    case clang::OO_ExclaimEqual:
    case clang::OO_Spaceship:
    case clang::OO_Less:
    case clang::OO_LessEqual:
    case clang::OO_Greater:
    case clang::OO_GreaterEqual:
      return true;
    default:
      return false;
  }
}

bool has_code(const clang::CXXMethodDecl& method) {
  const auto* body = method.isUserProvided() ? llvm::dyn_cast_or_null<clang::CompoundStmt>(method.getBody()) : nullptr;
  return method.isUserProvided() && !(body && body->body_empty());
}

/// The comparisons that the class declares, and its copies, moves and destructor with a body of their own.
std::vector<Special> find_special(const clang::CXXRecordDecl& record) {
  std::vector<Special> found;
  for (const clang::CXXMethodDecl* method : record.methods()) {
    const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(method);
    if (is_comparison(*method)) found.push_back({method, Special::Kind::compares});
    if (!method->isUserProvided()) continue;
    if (constructor && constructor->isCopyConstructor()) found.push_back({method, Special::Kind::copies});
    if (constructor && constructor->isMoveConstructor()) found.push_back({method, Special::Kind::moves});
    if (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator())
      found.push_back({method, Special::Kind::assigns});
    if (llvm::isa<clang::CXXDestructorDecl>(method) && has_code(*method))
      found.push_back({method, Special::Kind::destroys});
  }
  for (const clang::FriendDecl* one : record.friends())
    if (const auto* function = llvm::dyn_cast_or_null<clang::FunctionDecl>(one->getFriendDecl());
        function && is_comparison(*function))
      found.push_back({function, Special::Kind::compares});
  return found;
}

bool has(const std::vector<Special>& specials, Special::Kind kind, bool is_defaulted) {
  return std::any_of(specials.begin(), specials.end(), [&](const Special& one) {
    return one.kind == kind && one.function->isDefaulted() == is_defaulted;
  });
}

bool inherits_constructors(const clang::CXXRecordDecl& record) {
  return std::any_of(record.decls_begin(), record.decls_end(),
                     [](const clang::Decl* decl) { return llvm::isa<clang::ConstructorUsingShadowDecl>(decl); });
}

bool declares_constructors(const clang::CXXRecordDecl& record) {
  return std::any_of(record.ctor_begin(), record.ctor_end(),
                     [](const clang::CXXConstructorDecl* constructor) { return !constructor->isImplicit(); });
}

/// Whether the derived class's own constructor of that kind takes the place of the base's, which it calls.
bool replaces(const clang::CXXRecordDecl& derived, const Special& special) {
  return (special.kind == Special::Kind::copies || special.kind == Special::Kind::moves) &&
         has(find_special(derived), special.kind, false) && !inherits_constructors(derived);
}

/// Whether code of the class runs, or may throw, between the base's constructor and its destructor: in C++ the base's
/// part is there without the rest of the object then.
bool acts_around_its_base(const clang::CXXRecordDecl& derived) {
  const auto acts = [](const clang::FieldDecl* field) {
    const clang::Expr* value = field->getInClassInitializer();
    return acts_at_its_end(field->getType()) || (value && !value->isEvaluatable(field->getASTContext()));
  };
  return declares_constructors(derived) || std::any_of(derived.field_begin(), derived.field_end(), acts) ||
         std::any_of(derived.method_begin(), derived.method_end(),
                     [](const clang::CXXMethodDecl* method) { return method->size_overridden_methods() != 0; });
}

bool declares_copies(const clang::CXXRecordDecl& record) {
  return record.hasUserDeclaredCopyConstructor() || record.hasUserDeclaredCopyAssignment() ||
         record.hasUserDeclaredDestructor() || record.hasUserDeclaredMoveOperation();
}

/// Whether C++ moves the fields of `derived`, which moves are not copies of, and copies those of `base`.
bool moves_without_base(const clang::CXXRecordDecl& base, const clang::CXXRecordDecl& derived) {
  if (!declares_copies(base) || base.hasUserDeclaredMoveOperation() || declares_copies(derived)) return false;
  return std::any_of(derived.field_begin(), derived.field_end(), [](const clang::FieldDecl* field) {
    return !field->getType().isTriviallyCopyableType(field->getASTContext());
  });
}

/// Whether the constructors of `derived` replace a copy or move constructor that `base` declares without a body.
bool loses_declared_copy(const clang::CXXRecordDecl& base, const clang::CXXRecordDecl& derived) {
  return declares_constructors(derived) && !inherits_constructors(derived) && !declares_copies(derived) &&
         std::any_of(base.ctor_begin(), base.ctor_end(), [](const clang::CXXConstructorDecl* one) {
           return one->isCopyOrMoveConstructor() && !one->isImplicit() && !one->isUserProvided();
         });
}

/// Why the class that is flattened would not do what C++ does with the base's `special`; empty if it does.
std::string why_different(const Special& special, const clang::CXXRecordDecl& derived) {
  const clang::CXXDestructorDecl* destructor = derived.getDestructor();
  const bool has_fields = !derived.field_empty();
  switch (special.kind) {
    case Special::Kind::copies:
    case Special::Kind::moves:
      if (!has_fields && (inherits_constructors(derived) || !declares_constructors(derived))) return "";
      return "C++ copies the base's part of this class by the base's constructor, which modgen does not do";
    case Special::Kind::assigns:
      return has_fields
                 ? "C++ copies the fields of this class in addition to what the base copies, which modgen does not do"
                 : "";
    case Special::Kind::destroys:
      return destructor && !destructor->isImplicit()
                 ? "C++ runs the base's destructor after this class's, which modgen does not do"
             : acts_around_its_base(derived)
                 ? "C++ runs the base's destructor for the base's part alone, which modgen does not do"
                 : "";
    case Special::Kind::compares:
      if (special.function->isDefaulted())
        return has_fields ? "C++ compares the base's fields alone here, and flattened, this class's too" : "";
      return has(find_special(derived), special.kind, true)
                 ? "C++ compares the base's part by the base's operator here, and flattened, field by field"
                 : "";
  }
  return "";
}

/// The constructor, assignment or comparison of `derived` that takes a base, which flattened takes the class itself; or
/// null.
const clang::CXXMethodDecl* find_taking_base(const clang::CXXRecordDecl& derived) {
  const auto takes_base = [&](const clang::CXXMethodDecl* method) {
    const bool is_special = llvm::isa<clang::CXXConstructorDecl>(method) || is_comparison(*method) ||
                            method->getOverloadedOperator() == clang::OO_Equal;
    if (!is_special || method->isImplicit() || method->getMinRequiredArguments() > 1 || method->param_empty())
      return false;
    const auto* taken = method->getParamDecl(0)->getType().getNonReferenceType()->getAsCXXRecordDecl();
    return taken && derived.isDerivedFrom(taken);
  };
  const auto found = std::find_if(derived.method_begin(), derived.method_end(), takes_base);
  return found == derived.method_end() ? nullptr : *found;
}

/// A field that `T()` and std::make_unique<T>() set to zero in C++, where the class's default constructor is not of its
/// own, and that the bases' constructors, which become its own, leave as it is; or null.
const clang::FieldDecl* find_unset(const Entity& entity) {
  const auto has_own = [](const clang::CXXRecordDecl& record) { return record.hasUserProvidedDefaultConstructor(); };
  const clang::CXXRecordDecl& derived = *entity.levels[0].symbol->record;
  if (entity.is_module() || !derived.hasDefaultConstructor() || has_own(derived)) return nullptr;
  std::set<std::string> set;
  bool any = false;
  for (const Level& level : entity.levels)
    for (const clang::CXXConstructorDecl* constructor : level.symbol->record->ctors()) {
      if (!constructor->isDefaultConstructor() || !constructor->isUserProvided()) continue;
      any = true;
      static const MethodsMeant kNone;
      SideEffects effects = find_initializer_effects(*constructor, kNone);
      add(effects, find_side_effects(constructor->getBody(), kNone));
      set.insert(effects.writes.begin(), effects.writes.end());
      for (const clang::CXXCtorInitializer* init : constructor->inits())
        if (init->isWritten() && init->isAnyMemberInitializer()) set.insert(init->getAnyMember()->getNameAsString());
    }
  if (!any) return nullptr;
  for (const Level& level : entity.levels)
    for (const clang::FieldDecl* field : level.symbol->record->fields()) {
      const auto* record = field->getType()->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
      const bool is_unset = !field->hasInClassInitializer() && !set.contains(field->getNameAsString()) &&
                            (!record || record->hasTrivialDefaultConstructor());
      if (is_unset && !entity.removed.count(field->getNameAsString())) return field;
    }
  return nullptr;
}

}  // namespace

void check_redeclared(const Family& family, const clang::FieldDecl& field, const clang::FieldDecl* inherited,
                      SourceSpan where) {
  static const MethodsMeant kNone;
  const std::string name = "'" + field.getNameAsString() + "'";
  if (field.hasInClassInitializer()) {
    const SideEffects effects = find_side_effects(field.getInClassInitializer(), kNone);
    if (!effects.reads.empty() || effects.reads_everything || !effects.is_pure_and_ends())
      return family.specs().reject(
          where,
          "the initializer of " + name +
              ", which this redeclares, would run where the base's ran, before the base's constructor",
          "write a value that reads no members, or set it in a constructor");
  }
  if (!inherited || !inherited->hasInClassInitializer()) return;
  if (find_side_effects(inherited->getInClassInitializer(), kNone).is_pure_and_ends()) return;
  family.specs().reject(where, "the base's initializer of " + name + ", which this redeclares, does something besides",
                        "do that in a constructor",
                        {{Diagnostic::Severity::note,
                          family.parsed().token(family.specs().manager(), inherited->getLocation()),
                          "the base's",
                          "",
                          {}}});
}

void check_special_members(const Family& family, const Entity& entity) {
  const auto record = [&](size_t level) -> const clang::CXXRecordDecl& { return *entity.levels[level].symbol->record; };
  if (const clang::FieldDecl* field = find_unset(entity)) {
    family.specs().reject(family.parsed().token(family.specs().manager(), field->getLocation()),
                          "C++ sets " +
                              (field->getDeclName() ? "'" + field->getNameAsString() + "'" : "this unnamed member") +
                              " to zero in a new '" + entity.levels[0].symbol->name +
                              "()', and flattened, the constructor of a base would leave it as it is",
                          "give it an initializer");
    return;
  }
  for (size_t level = 0; level + 1 < entity.levels.size(); ++level)
    if (const clang::CXXMethodDecl* method = find_taking_base(record(level))) {
      family.specs().reject(
          family.parsed().token(family.specs().manager(), method->getLocation()),
          "this takes the base, and C++ has one of its own for this class besides; flattened, this is it",
          "write a method of another name");
      return;
    }
  for (size_t level = 1; level < entity.levels.size() && !entity.is_module(); ++level)
    for (size_t below = level; below-- > 0;) {
      const bool loses = loses_declared_copy(record(level), record(below));
      if (!loses && !moves_without_base(record(level), record(below))) continue;
      std::set<const Spec*> seen;
      const clang::Stmt* move = loses ? nullptr : find_move(entity, family.spec(), seen);
      // Nothing reads an object after it was moved: a copy is as good.
      const bool is_own = std::any_of(record(below).field_begin(), record(below).field_end(),
                                      [](const clang::FieldDecl* field) { return has_own_copies(field->getType()); });
      if (!loses && !move && !is_own) continue;
      std::vector<Remark> notes = {
          {Diagnostic::Severity::note, entity.levels[level].symbol->where, "the base", "", {}}};
      if (move)
        notes.push_back({Diagnostic::Severity::note,
                         family.parsed().span(family.specs().manager(), move->getSourceRange()),
                         "this moves it",
                         "",
                         {}});
      family.specs().reject(
          entity.levels[below].symbol->where,
          loses ? "the constructors of this class replace the copies that its base declares"
                : "C++ moves the fields of this class and copies those of its base, which modgen does not do",
          loses ? "declare the base's copies here, too" : "declare a destructor here, too, as in the base", notes);
      return;
    }
  for (size_t level = 1; level < entity.levels.size(); ++level)
    for (const Special& special : find_special(record(level)))
      for (size_t below = level; below-- > 0 && !replaces(record(below), special);) {
        const std::string why = why_different(special, record(below));
        if (why.empty()) continue;
        const SourceSpan where = family.parsed().token(family.specs().manager(), special.function->getLocation());
        family.specs().reject(
            entity.levels[below].symbol->where, why,
            special.kind == Special::Kind::destroys ? "do the work in one of the two" : "remove it from the base",
            {{Diagnostic::Severity::note, where, "the base's member", "", {}}});
        break;
      }
  bool has_own_fields = false;
  for (size_t level = 0; level < entity.levels.size(); ++level) {
    const clang::Expr* code = has_own_fields ? find_whole_assignment(record(level)) : nullptr;
    if (code)
      family.specs().reject(entity.levels.front().symbol->where,
                            "code of the base assigns all of an object, in C++ without the fields of '" +
                                entity.levels.front().symbol->name + "', and flattened with them",
                            "assign the fields one by one in the base, or make the base a member",
                            {{Diagnostic::Severity::note,
                              family.parsed().span(family.specs().manager(), code->getSourceRange()),
                              "the assignment",
                              "",
                              {}}});
    has_own_fields |= !record(level).field_empty();
  }
}

}  // namespace modgen
