#include "generator/validate/validate.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>

#include "generator/flatten/implicit_members.h"
#include "generator/validate/match.h"

namespace modgen {
namespace {

class Validator {
 public:
  Validator(const Family& family, const Fragment& text, uint32_t file)
      : family_(family), file_(file), counterparts_(family, text, file) {}

  Validation validate() {
    for (const clang::Decl* decl : family_.parsed().top_level) {
      const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl);
      if (space && counterparts_.locate(space->getLocation()).file == file_) visit_space(*space);
    }
    return validation_;
  }

 private:
  void visit_space(const clang::NamespaceDecl& space) {
    for (const clang::Decl* decl : space.decls()) {
      if (const auto* inner = llvm::dyn_cast<clang::NamespaceDecl>(decl))
        visit_space(*inner);
      else if (const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl))
        visit_class(*record);
      else if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl))
        visit_value(*variable, variable->getInit(), [](const clang::NamedDecl& origin) {
          const auto* one = llvm::dyn_cast<clang::VarDecl>(&origin);
          return one ? one->getInit() : nullptr;
        });
      else if (const auto* function = decl->getAsFunction())
        visit_function(*function, nullptr);
    }
  }

  void visit_class(const clang::CXXRecordDecl& record) {
    const Entity* entity = counterparts_.entity(record);
    if (!record.isThisDeclarationADefinition() || record.getLocation().isMacroID() || !entity ||
        !entity->levels.front().symbol->record)
      return;
    check_made_by_default(record, *entity);
    visit_members(record, *entity);
  }

  void check_made_by_default(const clang::CXXRecordDecl& record, const Entity& entity) {
    const auto is_made = [&](const clang::CXXRecordDecl& one) {
      return find_special_member(family_.specs(), one, SpecialMember::default_constructor) != nullptr;
    };
    if (entity.levels.size() > 1 || !entity.declared)
      if (is_made(*entity.levels.front().symbol->record) && !is_made(record))
        family_.specs().reject(counterparts_.locate(record.getLocation()),
                               "C++ makes a '" + entity.name +
                                   "' without arguments, and flattened, the class of one of its fields needs some",
                               "give that class a default constructor, too, or the field an initializer");
  }

  void visit_members(const clang::CXXRecordDecl& record, const Entity& entity) {
    for (const clang::Decl* decl : record.decls()) {
      if (decl->isImplicit()) continue;
      if (const auto* granted = llvm::dyn_cast<clang::FriendDecl>(decl); granted && granted->getFriendDecl())
        decl = granted->getFriendDecl();
      else if (const auto* pattern = llvm::dyn_cast<clang::TemplateDecl>(decl); pattern && pattern->getTemplatedDecl())
        decl = pattern->getTemplatedDecl();
      if (const auto* named = llvm::dyn_cast<clang::NamedDecl>(decl)) visit_type(*named, entity);
      if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl))
        visit_value(
            *variable, variable->getInit(),
            [](const clang::NamedDecl& origin) {
              const auto* one = llvm::dyn_cast<clang::VarDecl>(&origin);
              return one ? one->getInit() : nullptr;
            },
            &entity);
      else if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl))
        visit_value(
            *field, field->getInClassInitializer(),
            [](const clang::NamedDecl& origin) {
              const auto* one = llvm::dyn_cast<clang::FieldDecl>(&origin);
              return one ? one->getInClassInitializer() : nullptr;
            },
            &entity);
      else if (const auto* inner = llvm::dyn_cast<clang::CXXRecordDecl>(decl);
               inner && inner->isThisDeclarationADefinition())
        visit_members(*inner, entity);
      else if (const auto* function = decl->getAsFunction())
        visit_function(*function, &entity);
    }
  }

  /// What a member declares without an expression: its type, a bit-field's width, the values of an enum.
  void visit_type(const clang::NamedDecl& decl, const Entity& entity) {
    const clang::NamedDecl* origin = counterparts_.origin(decl);
    if (!origin || origin->getKind() != decl.getKind()) return;
    const Context context = counterparts_.context(entity, *origin);
    const auto has_same_type = [&](clang::QualType here, clang::QualType there) {
      if (here.isNull() || there.isNull()) return here.isNull() == there.isNull();
      const std::string text = counterparts_.type_of_flattened(here);
      // The text of a dependent decltype has the spec's names.
      return text == counterparts_.type_of_spec(there, context) || text.find("decltype(") != std::string::npos;
    };
    const auto as = [&]<class Kind>(const Kind*) {
      return std::pair(llvm::dyn_cast<Kind>(&decl), llvm::dyn_cast<Kind>(origin));
    };
    bool is_same = true;
    if (const auto [function, other] = as(static_cast<const clang::FunctionDecl*>(nullptr)); function) {
      is_same = has_same_type(function->getReturnType(), other->getReturnType()) &&
                std::ranges::equal(function->parameters(), other->parameters(),
                                   [&](const clang::ParmVarDecl* one, const clang::ParmVarDecl* there) {
                                     return has_same_type(one->getType(), there->getType());
                                   });
    } else if (const auto [value, from] = as(static_cast<const clang::ValueDecl*>(nullptr)); value) {
      is_same = has_same_type(value->getType(), from->getType());
    } else if (const auto [alias, named] = as(static_cast<const clang::TypedefNameDecl*>(nullptr)); alias) {
      is_same = has_same_type(alias->getUnderlyingType(), named->getUnderlyingType());
    } else if (const auto [values, listed] = as(static_cast<const clang::EnumDecl*>(nullptr)); values) {
      is_same = has_same_type(values->getIntegerType(), listed->getIntegerType()) &&
                std::ranges::equal(values->enumerators(), listed->enumerators(),
                                   [](const clang::EnumConstantDecl* one, const clang::EnumConstantDecl* there) {
                                     return llvm::APSInt::isSameValue(one->getInitVal(), there->getInitVal());
                                   });
    }
    if (const auto [field, from] = as(static_cast<const clang::FieldDecl*>(nullptr));
        field && field->isBitField() && !field->getBitWidth()->isValueDependent())
      is_same &= field->getBitWidthValue(decl.getASTContext()) == from->getBitWidthValue(decl.getASTContext());
    if (!is_same)
      report(Match::Difference{decl.getLocation(),
                               "'" + decl.getNameAsString() + "' is declared with another type or value"},
             decl);
  }

  template <class GetValue>
  void visit_value(const clang::NamedDecl& decl, const clang::Expr* value, GetValue&& get_value,
                   const Entity* entity = nullptr) {
    if (!value) return;
    const clang::NamedDecl* origin = counterparts_.origin(decl);
    if (!entity) entity = counterparts_.entity(decl);
    const clang::Expr* spec = origin ? get_value(*origin) : nullptr;
    if (!spec || !entity) return skip("values whose declaration was not found");
    const BindingScope scope{counterparts_.context(*entity, *origin), nullptr, {}};
    Match match(counterparts_, validation_);
    if (!match.expression(value, spec, scope)) report(match.difference(), decl);
  }

  /// Default arguments of `function`, which stands for `spec`.
  void visit_defaults(const clang::FunctionDecl& function, const clang::FunctionDecl& spec, const Context& context) {
    const auto has_value = [](const clang::ParmVarDecl& one) {
      return one.hasDefaultArg() && !one.hasUnparsedDefaultArg() && !one.hasUninstantiatedDefaultArg();
    };
    for (unsigned index = 0; index < std::min(function.getNumParams(), spec.getNumParams()); ++index) {
      const clang::ParmVarDecl &here = *function.getParamDecl(index), &there = *spec.getParamDecl(index);
      if (!has_value(here) || !has_value(there)) continue;
      Match match(counterparts_, validation_);
      if (!match.expression(here.getDefaultArg(), there.getDefaultArg(), {context, nullptr, {}}))
        report(match.difference(), function);
    }
  }

  void visit_function(const clang::FunctionDecl& function, const Entity* entity) {
    const auto* defaulted = llvm::dyn_cast<clang::CXXConstructorDecl>(&function);
    const bool runs_bases = defaulted && defaulted->isExplicitlyDefaulted() && defaulted->isDefaultConstructor();
    if (!runs_bases && (!function.doesThisDeclarationHaveABody() || function.isDefaulted())) return;
    const clang::NamedDecl* origin = counterparts_.origin(function);
    if (const auto* record = llvm::dyn_cast_or_null<clang::CXXRecordDecl>(origin);
        record && defaulted && defaulted->isDefaultConstructor())  // which C++ declares implicitly
      origin = find_special_member(family_.specs(), *record, SpecialMember::default_constructor);
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function);  // defined after its class
    if (!entity) entity = method ? counterparts_.entity(*method->getParent()) : counterparts_.entity(function);
    const clang::FunctionDecl* spec = origin ? origin->getAsFunction() : nullptr;
    if (!spec || !entity) return skip("functions whose declaration was not found");
    spec = &Specs::defined(*spec);
    if (!spec->hasBody() && !spec->isDefaulted()) return skip("functions without a body in a spec");
    const Context context = counterparts_.context(*entity, *spec->getCanonicalDecl());
    visit_defaults(function, *spec->getCanonicalDecl(), context);
    const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&function);
    const bool is_inner = constructor && constructor->getParent()->getDeclContext()->isRecord();
    if (is_inner && constructor->isDefaulted()) return;
    if (constructor && !is_inner)
      return report(constructor_difference(counterparts_, validation_, *constructor,
                                           *llvm::cast<clang::CXXConstructorDecl>(spec), context),
                    function);
    Match match(counterparts_, validation_);
    const BindingScope scope{context, nullptr, {}};
    if (constructor ? !match.initializers_and_body(*constructor, *llvm::cast<clang::CXXConstructorDecl>(spec), scope)
                    : !match.bodies(function, *spec, scope))
      report(match.difference(), function);
  }

  void skip(const std::string& reason) { ++validation_.skipped[reason]; }

  void report(const std::optional<Match::Difference>& difference, const clang::NamedDecl& in) {
    if (!difference) return;
    SourceSpan where = counterparts_.locate(difference->where);
    if (where.file != file_) where = counterparts_.locate(in.getLocation());
    family_.specs().reject(where, "flattened, this would differ in meaning from the spec: " + difference->message,
                           difference->advice);
  }

  const Family& family_;
  uint32_t file_;
  const Counterparts counterparts_;
  Validation validation_;
};

}  // namespace

std::string to_text(const Validation& validation) {
  std::string text = std::to_string(validation.expressions) + " expressions validated against the specs, " +
                     std::to_string(validation.by_redefinition) + " of them with a type that the family redefines\n";
  for (const auto& [reason, count] : validation.skipped)
    text += "  not validated: " + std::to_string(count) + " " + reason + "\n";
  return text;
}

Validation validate(const Family& family, const Fragment& text, uint32_t file) {
  return Validator(family, text, file).validate();
}

}  // namespace modgen
