// Overloads of a base that C++ hides behind a method of their name in a class that derives: flattened, they would be
// found again.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>

#include "generator/flatten/members.h"
#include "generator/flatten/overloads.h"

namespace modgen {
namespace {

const clang::FunctionDecl* method_in(const Member& member) {
  return member.kind == Member::Kind::method && member.decl && member.friend_signature.empty()
             ? member.decl->getAsFunction()
             : nullptr;
}

bool is_assignment_of_class(const clang::FunctionDecl& function) {
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function);
  return method && (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator());
}

class HiddenMembers {
 public:
  HiddenMembers(const Family& family, Entity& entity, const std::map<size_t, std::set<std::string>>& reintroduced,
                std::vector<Member>& members)
      : family_(family), entity_(entity), reintroduced_(reintroduced), members_(members) {}

  void drop() {
    for (bool changes = true; changes;) {
      changes = false;
      for (size_t index = 0; index < members_.size() && !changes; ++index) {
        const Member& inherited = members_[index];
        const clang::FunctionDecl* function = method_in(inherited);
        if (!function || !is_hidden(inherited) || find_call(inherited)) continue;
        entity_.hidden.insert(function->getCanonicalDecl());
        members_.erase(members_.begin() + static_cast<long>(index));
        changes = true;
      }
    }
    for (const Member& inherited : members_)
      if (const clang::FunctionDecl* function = method_in(inherited); function && is_hidden(inherited))
        reject(inherited, *function);
  }

 private:
  bool is_reintroduced(size_t level, const std::string& name) const {
    const auto found = reintroduced_.find(level);
    return found != reintroduced_.end() && found->second.contains(name);
  }

  /// The method that hides `inherited`; null if none does.
  const Member* find_hiding(const Member& inherited) const {
    for (const Member& member : members_)
      if (method_in(member) && member.name == inherited.name && member.level < inherited.level &&
          !is_reintroduced(member.level, member.name))
        return &member;
    return nullptr;
  }

  /// Each class has an assignment of its own, which hides those of its base.
  bool is_hidden_assignment(const Member& inherited) const {
    const clang::FunctionDecl& function = *method_in(inherited);
    if (inherited.level == 0 || function.getOverloadedOperator() != clang::OO_Equal || is_assignment_of_class(function))
      return false;
    for (size_t level = 0; level < inherited.level; ++level)
      if (is_reintroduced(level, inherited.name)) return false;
    return true;
  }

  bool is_hidden(const Member& inherited) const {
    const clang::FunctionDecl& function = *method_in(inherited);
    if (is_hidden_assignment(inherited)) return true;
    // Libraries may call operators, and what overrides their virtual methods.
    if (function.isOverloadedOperator() || overrides_library(function)) return false;
    return find_hiding(inherited) != nullptr;
  }

  bool overrides_library(const clang::FunctionDecl& function) const {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function);
    return method && std::any_of(method->begin_overridden_methods(), method->end_overridden_methods(),
                                 [&](const clang::CXXMethodDecl* one) {
                                   return !family_.specs().symbol(one->getParent()) || overrides_library(*one);
                                 });
  }

  /// Code that the family may keep and that calls the method, other than as the base's own on `this`.
  const Reference* find_call(const Member& called) const {
    const clang::Decl* wanted = method_in(called)->getCanonicalDecl();
    for (const auto& spec : family_.specs().all()) {
      if (!family_.spec().sees(*spec)) continue;
      for (const Reference& reference : spec->references) {
        const clang::FunctionDecl* target = reference.target->getAsFunction();
        if (!target || target->getCanonicalDecl() != wanted || called.slice->whole.contains(reference.where)) continue;
        if (!is_qualified(reference) && is_kept(reference.where)) return &reference;
      }
    }
    return nullptr;
  }

  /// False if the code at `where` is a method of one of the classes that another one has replaced, and that no super
  /// call names.
  bool is_kept(SourceSpan where) const {
    const auto contains = [&](clang::SourceRange range) {
      return family_.parsed().span(family_.specs().manager(), range).contains(where);
    };
    for (const Level& level : entity_.levels) {
      if (!contains(level.symbol->record->getSourceRange())) continue;
      if (std::ranges::any_of(members_, [&](const Member& member) { return member.slice->whole.contains(where); }))
        return true;
      for (const clang::Decl* decl : level.symbol->record->decls()) {
        if (decl->isImplicit() || !contains(decl->getSourceRange())) continue;
        const clang::FunctionDecl* method = decl->getAsFunction();
        return !method || llvm::isa<clang::CXXConstructorDecl>(method) || is_called_as_base(*method);
      }
    }
    return true;
  }

  bool is_called_as_base(const clang::FunctionDecl& method) const {
    return std::ranges::any_of(family_.specs().all(), [&](const auto& spec) {
      return family_.spec().sees(*spec) && std::ranges::any_of(spec->references, [&](const Reference& reference) {
               const clang::FunctionDecl* target = reference.target->getAsFunction();
               return target && target->getCanonicalDecl() == method.getCanonicalDecl() && is_qualified(reference);
             });
    });
  }

  bool is_qualified(const Reference& reference) const {
    const std::string& text = family_.file_text(reference.where.file);
    return reference.where.begin > 1 && text.compare(reference.where.begin - 2, 2, "::") == 0;
  }

  void reject(const Member& inherited, const clang::FunctionDecl& function) const {
    const Member* hiding = find_hiding(inherited);
    if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function); method && method->isVirtual()) return;
    if (hiding && !may_take_same(family_, entity_, *method_in(*hiding), function)) return;
    const Reference* call = find_call(inherited);
    if (!call) return;
    family_.specs().reject(
        hiding ? hiding->slice->core : entity_.levels[inherited.level - 1].symbol->where,
        "C++ hides the base's '" + inherited.name + "' with other parameters here; flattened, calls may find both",
        "declare that one here, too, or add a using-declaration for the base's",
        {{Diagnostic::Severity::note, inherited.slice->core, "the base's", "", {}},
         {Diagnostic::Severity::note, call->where, "code that the family keeps calls it", "", {}}});
  }

  const Family& family_;
  Entity& entity_;
  const std::map<size_t, std::set<std::string>>& reintroduced_;
  std::vector<Member>& members_;
};

}  // namespace

void drop_hidden_members(const Family& family, Entity& entity,
                         const std::map<size_t, std::set<std::string>>& reintroduced, std::vector<Member>& members) {
  HiddenMembers(family, entity, reintroduced, members).drop();
}

}  // namespace modgen
