#include "generator/flatten/library_effects.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/Stmt.h>

#include <algorithm>
#include <set>
#include <vector>

#include "generator/source/syntax_visitor.h"

namespace modgen {
namespace {

/// Whether a library that keeps no reference to a variable declares the class: libtorch, or the contract.
bool is_of_library(const clang::CXXRecordDecl& record) {
  const std::vector<llvm::StringRef> names = spaces_around(record);
  if (names.empty()) return false;
  const bool of_contract = names[0] == "modular" && (names.size() == 1 || names[1] == "nn");
  return of_contract || names[0] == "at" || names[0] == "c10" || names[0] == "torch" || names[0] == "caffe2";
}

bool is_module(const clang::CXXRecordDecl& record) {
  bool found = false;
  if (record.hasDefinition())
    record.forallBases([&](const clang::CXXRecordDecl* base) {
      found |= base->getName() == "Module" || base->getName() == "ModuleHolder";
      return true;
    });
  return found;
}

/// The type arguments of a class template's instance.
std::vector<clang::QualType> type_arguments(const clang::CXXRecordDecl& record) {
  std::vector<clang::QualType> types;
  const auto* instance = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(&record);
  const auto add = [&](const clang::TemplateArgument& argument) {
    if (argument.getKind() == clang::TemplateArgument::Type) types.push_back(argument.getAsType());
  };
  for (unsigned index = 0; instance && index < instance->getTemplateArgs().size(); ++index) {
    const clang::TemplateArgument& argument = instance->getTemplateArgs()[index];
    if (argument.getKind() == clang::TemplateArgument::Pack)
      std::for_each(argument.pack_begin(), argument.pack_end(), add);
    else
      add(argument);
  }
  return types;
}

/// Whether it is a container of the standard library that holds its elements, or a type that its arguments name.
bool is_container(llvm::StringRef name) {
  static constexpr llvm::StringRef names =
      " allocator array basic_string bitset char_traits complex default_delete deque duration equal_to forward_list "
      "hash "
      "initializer_list less list map monostate multimap multiset nullopt_t optional pair priority_queue queue set "
      "stack "
      "tuple unique_ptr unordered_map unordered_multimap unordered_multiset unordered_set variant vector ";
  return names.contains((" " + name + " ").str());
}

Reach find_reach(clang::QualType type, std::set<const clang::CXXRecordDecl*>& open);

Reach find_reach(const clang::CXXRecordDecl& record, std::set<const clang::CXXRecordDecl*>& open) {
  if (!open.insert(&record).second) return Reach::itself;
  if (is_module(record)) return Reach::shared;
  if (is_of_library(record)) return Reach::itself;
  Reach reach = Reach::itself;
  if (is_of_standard(record)) {
    const llvm::StringRef name = record.getName();
    if (name == "shared_ptr" || name == "weak_ptr") return Reach::shared;
    if (!is_container(name)) return record.hasDefinition() && record.isEmpty() ? Reach::itself : Reach::anything;
    for (const clang::QualType argument : type_arguments(record)) reach = std::max(reach, find_reach(argument, open));
    return reach;
  }
  if (!record.hasDefinition() || record.isLambda()) return Reach::anything;
  for (const clang::FieldDecl* field : record.fields()) reach = std::max(reach, find_reach(field->getType(), open));
  for (const clang::CXXBaseSpecifier& base : record.bases()) reach = std::max(reach, find_reach(base.getType(), open));
  return reach;
}

Reach find_reach(clang::QualType type, std::set<const clang::CXXRecordDecl*>& open) {
  type = type.getCanonicalType();
  if (type->isReferenceType() || type->isDependentType()) return Reach::anything;
  if (type->isPointerType()) {
    if (type->isFunctionPointerType()) return Reach::anything;
    const auto* pointee = type->getPointeeType()->getAsCXXRecordDecl();
    return pointee && (is_of_library(*pointee) || is_module(*pointee)) ? Reach::shared : Reach::anything;
  }
  if (const clang::ArrayType* array = type->getAsArrayTypeUnsafe()) return find_reach(array->getElementType(), open);
  if (const auto* record = type->getAsCXXRecordDecl()) return find_reach(*record, open);
  return type->isScalarType() || type->isVoidType() ? Reach::itself : Reach::anything;
}

/// Whether the destructor of an object of that type does more than free its memory; `open` has the classes around it.
bool acts_at_end(clang::QualType type, std::set<const clang::CXXRecordDecl*>& open) {
  const auto* record = type.getCanonicalType()->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition() || record->hasTrivialDestructor() || record->isLambda()) return false;
  if (!open.insert(record).second) return false;
  const llvm::StringRef name = record->getName();
  if (is_of_library(*record)) return name.contains("Guard") || name.contains("Mode");
  const auto acts = [&](clang::QualType one) { return acts_at_end(one, open); };
  if (is_of_standard(*record)) {
    const std::vector<clang::QualType> arguments = type_arguments(*record);
    const bool holds = is_container(name) || name == "shared_ptr" || name == "weak_ptr";
    return name.contains("lock") || name.contains("thread") ||
           (holds && std::any_of(arguments.begin(), arguments.end(), acts));
  }
  const clang::CXXDestructorDecl* destructor = record->getDestructor();
  const bool is_own = destructor && destructor->isUserProvided();
  return is_own ||
         std::any_of(record->field_begin(), record->field_end(),
                     [&](const clang::FieldDecl* field) { return acts(field->getType()); }) ||
         std::any_of(record->bases_begin(), record->bases_end(),
                     [&](const clang::CXXBaseSpecifier& base) { return acts(base.getType()); });
}

}  // namespace

bool acts_at_its_end(clang::QualType type) {
  std::set<const clang::CXXRecordDecl*> open;
  return acts_at_end(type, open);
}

Reach get_reach(clang::QualType type) {
  std::set<const clang::CXXRecordDecl*> open;
  return find_reach(type, open);
}

bool only_reads(clang::QualType type) {
  type = type.getCanonicalType();
  if (type->isPointerType()) return type->getPointeeType().isConstQualified();
  const auto* record = type->getAsCXXRecordDecl();
  if (!record || !is_of_standard(*record)) return false;
  if (record->getName().contains("const_iterator") || record->getName() == "basic_string_view") return true;
  static const std::set<llvm::StringRef> around = {"__normal_iterator", "reverse_iterator", "move_iterator"};
  const std::vector<clang::QualType> arguments = type_arguments(*record);
  if (record->getName() == "span") return !arguments.empty() && arguments[0].isConstQualified();
  return around.contains(record->getName()) && !arguments.empty() && only_reads(arguments[0]);
}

bool leaves_a_guard(const clang::Stmt& code) {
  if (const auto* body = llvm::dyn_cast<clang::CompoundStmt>(&code))
    return std::any_of(body->body_begin(), body->body_end(), [](const clang::Stmt* statement) {
      return llvm::isa<clang::DeclStmt>(statement) && leaves_a_guard(*statement);
    });
  const auto* declared = llvm::dyn_cast<clang::DeclStmt>(&code);
  return declared && std::any_of(declared->decl_begin(), declared->decl_end(), [](const clang::Decl* decl) {
           const auto* variable = llvm::dyn_cast<clang::VarDecl>(decl);
           return variable && !variable->isStaticLocal() && acts_at_its_end(variable->getType().getNonReferenceType());
         });
}

bool has_acting_temporary(const clang::Stmt& code) {
  struct Visitor : SyntaxVisitor {
    bool found = false;
    bool VisitStmt(clang::Stmt* statement) override {
      const auto* temporary = llvm::dyn_cast<clang::CXXBindTemporaryExpr>(statement);
      found |= temporary && acts_at_its_end(temporary->getType());
      return !found;
    }
  } visitor;
  visitor.visit(&code);
  return visitor.found;
}

bool has_own_assignment(clang::QualType type) {
  const auto* record = type.getCanonicalType()->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition() || !is_of_spec(*record)) return false;
  const auto is_own = [](const clang::CXXMethodDecl* method) {
    return method->isUserProvided() && (method->isCopyAssignmentOperator() || method->isMoveAssignmentOperator());
  };
  return std::any_of(record->method_begin(), record->method_end(), is_own) ||
         std::any_of(record->field_begin(), record->field_end(),
                     [](const clang::FieldDecl* field) { return has_own_assignment(field->getType()); });
}

std::optional<llvm::StringRef> range_algorithm(const clang::CXXOperatorCallExpr& call) {
  const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(call.getDirectCallee());
  const auto* named = llvm::dyn_cast<clang::DeclRefExpr>(call.getArg(0)->IgnoreParenImpCasts());
  if (!method || !named || !named->getDecl()->getDeclName().isIdentifier()) return std::nullopt;
  const std::vector<llvm::StringRef> names = spaces_around(*method->getParent());
  if (names.size() < 2 || names[0] != "std" || names[1] != "ranges") return std::nullopt;
  return named->getDecl()->getName();
}

bool is_reading_algorithm(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {
      "accumulate",  "advance",     "all_of",      "any_of",      "as_const",    "begin",         "binary_search",
      "cbegin",      "cend",        "count",       "count_if",    "distance",    "end",           "equal",
      "equal_range", "find",        "find_if",     "find_if_not", "forward",     "get",           "inner_product",
      "is_sorted",   "lower_bound", "max_element", "mismatch",    "min_element", "next",          "none_of",
      "prev",        "reduce",      "search",      "size",        "upper_bound", "minmax_element"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool cannot_throw(const clang::FunctionDecl& function) {
  const clang::ExceptionSpecificationType kind = function.getExceptionSpecType();
  return clang::isNoexceptExceptionSpec(kind) && kind != clang::EST_NoexceptFalse;
}

bool library_may_throw(const clang::FunctionDecl& callee) {
  if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee)) {
    const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(method);
    const bool copies = constructor && (constructor->isDefaultConstructor() || constructor->isCopyOrMoveConstructor());
    if (copies || method->isDefaulted() || method->getParent()->isLambda() || is_of_spec(*method->getParent()))
      return false;
  } else if (callee.hasBody() && !callee.isInStdNamespace()) {
    return false;  // its body is followed
  }
  return !cannot_throw(callee);
}

namespace {

/// Adds the class if it is of a spec, and otherwise those that its objects hold.
void add_held_classes(const clang::CXXRecordDecl& record, std::set<const clang::CXXRecordDecl*>& found) {
  if (is_of_spec(record)) return void(found.insert(record.getCanonicalDecl()));
  for (const clang::QualType type : type_arguments(record))
    if (const auto* held = type.getNonReferenceType()->getAsCXXRecordDecl()) add_held_classes(*held, found);
}

}  // namespace

void add_classes_run_by(const clang::FunctionDecl& callee, std::set<const clang::CXXRecordDecl*>& found) {
  if (is_of_spec(callee) || callee.isTrivial() || callee.getBuiltinID() != 0) return;
  const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&callee);
  if (method && (method->getParent()->isLambda() || method->isConst())) return;
  if (method) add_held_classes(*method->getParent(), found);
  const auto add = [&](clang::QualType type) {
    const auto* record = type.getNonReferenceType()->getBaseElementTypeUnsafe()->getAsCXXRecordDecl();
    if (record && !record->isLambda()) add_held_classes(*record, found);  // the bodies of lambdas are followed
  };
  if (const clang::TemplateArgumentList* given = callee.getTemplateSpecializationArgs())
    for (const clang::TemplateArgument& argument : given->asArray())
      if (argument.getKind() == clang::TemplateArgument::Type) add(argument.getAsType());
  for (const clang::ParmVarDecl* parameter : callee.parameters()) add(parameter->getType());
}

bool writes_process(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {"global", "manual_seed", "putenv", "srand", "unsetenv"};
  return name.starts_with("set") || std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool reads_process(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {
      "clock", "get_default_dtype", "get_num_threads", "getenv", "is_enabled", "locale", "localeconv", "now",
      "rand",  "secure_getenv",     "setlocale",       "time"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool throws_by_name(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {"any_cast", "at", "substr", "value"};
  return name.starts_with("sto") || std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool counts_elements(const clang::CXXMethodDecl& method, llvm::ArrayRef<const clang::Expr*> arguments) {
  if (arguments.empty() || !is_of_standard(*method.getParent()) || !is_container(method.getParent()->getName()))
    return false;
  const llvm::StringRef name = method.getDeclName().isIdentifier() ? method.getName() : "";
  const bool counts =
      llvm::isa<clang::CXXConstructorDecl>(method) || name == "assign" || name == "reserve" || name == "resize";
  const clang::Expr& number = *arguments[0];
  return counts && method.getNumParams() > 0 && method.getParamDecl(0)->getType()->isUnsignedIntegerType() &&
         (number.isValueDependent() || !number.isIntegerConstantExpr(method.getASTContext()));
}

bool needs_element(llvm::StringRef name) {
  return name == "front" || name == "back" || name == "top" || name.starts_with("pop");
}

bool is_accessor(llvm::StringRef name) {
  static constexpr llvm::StringRef names[] = {"at",  "back", "begin", "cbegin", "cend", "data",
                                              "end", "find", "front", "get",    "ptr",  "value"};
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool inserts_missing(const clang::CXXMethodDecl& subscript) {
  return !subscript.isConst() && is_of_standard(*subscript.getParent()) &&
         subscript.getParent()->getName().contains("map");
}

bool is_random(llvm::StringRef name) {
  static constexpr llvm::StringRef words[] = {"rand", "bernoulli", "multinomial", "dropout", "normal", "uniform"};
  return std::any_of(std::begin(words), std::end(words), [&](llvm::StringRef word) { return name.contains(word); });
}

bool forwards(const clang::FunctionDecl& callee, unsigned index) {
  const clang::FunctionDecl* written = &callee;
  if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&callee))
    while (const auto inherited = constructor->getInheritedConstructor())
      written = constructor = inherited.getConstructor();
  const clang::FunctionDecl* pattern = written->getTemplateInstantiationPattern();
  if (!pattern || is_of_spec(*written)) return false;  // a spec's own function may modify what it is passed
  const llvm::StringRef name = callee.getDeclName().isIdentifier() ? callee.getName() : "";
  if (name == "move" || name == "swap" || name == "exchange") return false;
  const clang::ParmVarDecl* parameter = pattern->getParamDecl(std::min(index, pattern->getNumParams() - 1));
  clang::QualType type = parameter->getType();
  if (const auto* pack = type->getAs<clang::PackExpansionType>()) type = pack->getPattern();
  return type->isRValueReferenceType() && type->getPointeeType()->isTemplateTypeParmType();
}

}  // namespace modgen
