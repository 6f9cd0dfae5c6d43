// Objects: constructions, braced lists, and the values of members, arguments and constants that a default or an
// initializer elsewhere gives.
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>

#include "generator/flatten/library_effects.h"
#include "generator/model/body_reader.h"
#include "generator/resolve/specs.h"

namespace modgen {

using llvm::dyn_cast;
using llvm::isa;

namespace {

/// Defaults that name each other are followed to this depth.
constexpr int kMostDefaults = 8;

/// Whether an object of a library class is followed as the value that it is made from.
bool stands_for_its_source(std::string_view type) {
  static constexpr std::string_view kinds[] = {"at::Tensor",
                                               "at::OptionalTensorRef",
                                               "at::indexing::TensorIndex",
                                               "c10::Scalar",
                                               "c10::SymInt",
                                               "c10::ArrayRef<",
                                               "c10::OptionalArrayRef<",
                                               "c10::IListRef<",
                                               "c10::List<",
                                               "c10::SmallVector<",
                                               "c10::optional<",
                                               "c10::Device",
                                               "c10::TensorOptions",
                                               "c10::basic_string_view<",
                                               "caffe2::TypeMeta",
                                               "std::optional<",
                                               "std::vector<",
                                               "std::initializer_list<",
                                               "std::array<",
                                               "std::deque<",
                                               "std::pair<",
                                               "std::tuple<",
                                               "std::basic_string<",
                                               "std::basic_string_view<",
                                               "std::function<",
                                               "std::shared_ptr<",
                                               "std::unique_ptr<",
                                               "std::weak_ptr<",
                                               "std::reference_wrapper<",
                                               "std::span<",
                                               "std::variant<",
                                               "std::map<",
                                               "std::set<",
                                               "std::unordered_map<",
                                               "std::allocator<",
                                               "torch::ExpandingArray<",
                                               "torch::nn::",
                                               "modular::"};
  return std::ranges::any_of(kinds, [&](std::string_view kind) { return type.starts_with(kind); });
}

/// Whether an object of that type holds numbers, and classes of the standard library that hold numbers, as opposed to
/// references.
bool holds_values(clang::QualType type) {
  if (type->isArithmeticType() || type->isEnumeralType() || type->isVoidType()) return true;
  const auto* record = type->getAsCXXRecordDecl();
  if (!record || !is_of_standard(*record) || record->getName() == "reference_wrapper") return false;
  const auto* instance = dyn_cast<clang::ClassTemplateSpecializationDecl>(record);
  if (!instance) return true;
  const auto is_value = [](const clang::TemplateArgument& one) {
    return one.getKind() != clang::TemplateArgument::Type || holds_values(one.getAsType());
  };
  return std::ranges::all_of(instance->getTemplateArgs().asArray(), [&](const clang::TemplateArgument& one) {
    return one.getKind() == clang::TemplateArgument::Pack ? std::ranges::all_of(one.pack_elements(), is_value)
                                                          : is_value(one);
  });
}

}  // namespace

bool is_holder(clang::QualType type) {
  const clang::CXXRecordDecl* record = type.getNonReferenceType()->getAsCXXRecordDecl();
  if (!record || !record->hasDefinition()) return false;
  bool found = record->getName() == "ModuleHolder" || record->getName() == "OneOf";
  record->forallBases([&](const clang::CXXRecordDecl* base) {
    found |= base->getName() == "ModuleHolder";
    return true;
  });
  return found;
}

bool is_project_struct(const clang::CXXRecordDecl& record) {
  const clang::DeclContext* outer = &record;
  while (outer->getParent() && !outer->getParent()->isTranslationUnit()) outer = outer->getParent();
  const auto* space = dyn_cast<clang::NamespaceDecl>(outer);
  return space && space->getName() == "modular" && record.hasDefinition() && record.getNumBases() == 0 &&
         !record.isUnion();
}

bool reads_object(const clang::Stmt& code) {
  return isa<clang::CXXThisExpr>(code) ||
         std::ranges::any_of(code.children(), [](const clang::Stmt* child) { return child && reads_object(*child); });
}

bool BodyReader::is_conversion(const clang::CXXConstructExpr& construct) const {
  if (isa<clang::CXXTemporaryObjectExpr>(construct) || construct.getNumArgs() == 0) return false;
  for (unsigned i = 1; i < construct.getNumArgs(); ++i)
    if (!isa<clang::CXXDefaultArgExpr>(construct.getArg(i))) return false;
  if (isa<clang::CXXDefaultArgExpr>(construct.getArg(0))) return false;
  const clang::CXXConstructorDecl& constructor = *construct.getConstructor();
  return constructor.isCopyOrMoveConstructor() || is_holder(construct.getType()) ||
         (declarations_.callee(constructor).home != Callee::Home::family &&
          stands_for_its_source(declarations_.type_name(construct.getType())));
}

bool BodyReader::takes_value(const clang::CXXConstructExpr& construct, unsigned index) const {
  if (!forwards(*construct.getConstructor(), index)) return false;
  if (!is_holder(construct.getType())) return holds_values(construct.getType());
  const clang::CXXRecordDecl* module = held_by(*construct.getConstructor()->getParent());
  const auto may_change = [&](const clang::CXXConstructorDecl* one) {
    const clang::QualType type = index < one->getNumParams() ? one->getParamDecl(index)->getType() : clang::QualType();
    return !type.isNull() && type->isLValueReferenceType() && to_binding(type) == Binding::reference;
  };
  return !module || !module->hasDefinition() || std::none_of(module->ctor_begin(), module->ctor_end(), may_change);
}

bool BodyReader::is_default_construction(const clang::Expr& init) {
  const auto* construct = dyn_cast<clang::CXXConstructExpr>(init.IgnoreImplicit());
  return construct && !isa<clang::CXXTemporaryObjectExpr>(construct) && construct->getNumArgs() == 0 &&
         !construct->isListInitialization();
}

void BodyReader::read_construction(const clang::CXXConstructExpr& construct, Expr& result) {
  result.kind = Expr::Kind::construct;
  result.name = declarations_.type_name(construct.getType());
  for (unsigned i = 0; i < construct.getNumArgs(); ++i) {
    if (isa<clang::CXXDefaultArgExpr>(construct.getArg(i))) continue;
    result.operands.push_back(read(*construct.getArg(i)));
    if (takes_value(construct, i)) result.operands.back().is_unread = false;
  }
  if (const Callee& callee = declarations_.callee(*construct.getConstructor()); callee.home == Callee::Home::family)
    result.callee = std::make_shared<Callee>(callee);
}

void BodyReader::read_list(const clang::InitListExpr& list, Expr& result) {
  result.kind = Expr::Kind::list;
  const clang::InitListExpr* semantic = list.isSemanticForm() ? &list : list.getSemanticForm();
  const clang::CXXRecordDecl* record = semantic ? semantic->getType()->getAsCXXRecordDecl() : nullptr;
  if (record && is_project_struct(*record)) {
    const bool is_own = get_home(*record) == Callee::Home::family;
    unsigned i = 0;
    for (const clang::FieldDecl* field : record->fields()) {
      if (field->isUnnamedBitField()) continue;
      if (i >= semantic->getNumInits()) break;
      const clang::Expr& value = *semantic->getInit(i++);
      const auto* initial = dyn_cast<clang::CXXDefaultInitExpr>(&value);
      const bool is_given = !initial && !isa<clang::ImplicitValueInitExpr>(value);
      if (!is_given && !is_own) continue;
      std::optional<Expr> member =
          is_given ? read(value) : default_value(*field, initial ? initial->getExpr() : nullptr, list.getSourceRange());
      if (!member) continue;
      result.members.push_back(field->getName().str());
      result.operands.push_back(std::move(*member));
    }
    return;
  }
  const clang::InitListExpr* syntactic =
      list.isSemanticForm() && list.getSyntacticForm() ? list.getSyntacticForm() : &list;
  for (const clang::Expr* element : syntactic->inits()) result.operands.push_back(read(*element));
  // Only the other form has the conversions.
  if (semantic && !keeps_unread(*semantic))
    for (Expr& element : result.operands) element.is_unread = false;
}

bool BodyReader::keeps_unread(const clang::InitListExpr& list) const {
  return std::ranges::any_of(list.inits(), [&](const clang::Expr* element) {
    if (const auto* inner = dyn_cast<clang::InitListExpr>(element)) return keeps_unread(*inner);
    Conversions conversions;
    return is_unread(written(*element, &conversions), conversions);
  });
}

std::optional<Expr> BodyReader::default_value(const clang::FieldDecl& field, const clang::Expr* initial,
                                              clang::SourceRange where) {
  if (initial && reads_object(*initial)) return unknown_at(where, kReadsOtherMembers);
  if (initial && defaults_ == kMostDefaults) return std::nullopt;
  if (initial) {
    ++defaults_;
    Expr result = read(*initial);
    --defaults_;
    return result;
  }
  const auto* record = field.getType().getCanonicalType()->getAsCXXRecordDecl();
  if (record && get_home(*record) == Callee::Home::family) {
    if (!is_project_struct(*record) || record->hasUserProvidedDefaultConstructor()) return std::nullopt;
    return default_members(*record, where);
  }
  Expr result;
  result.type = result.name = declarations_.type_name(field.getType());
  // A tensor is undefined, a number zero.
  result.kind = result.type == "at::Tensor" ? Expr::Kind::construct : Expr::Kind::other;
  result.span = result.outer = find_span(where, &result.in_macro);
  return result;
}

Expr BodyReader::default_members(const clang::CXXRecordDecl& record, clang::SourceRange where) {
  Expr result;
  result.kind = Expr::Kind::list;
  result.type = result.name = declarations_.type_name(context_.getRecordType(&record));
  result.span = result.outer = find_span(where, &result.in_macro);
  for (const clang::FieldDecl* field : record.fields()) {
    const clang::Expr* initial = field->getInClassInitializer();
    // A number without an initializer is not initialized.
    if (field->isUnnamedBitField() || (!initial && !field->getType()->getAsCXXRecordDecl())) continue;
    std::optional<Expr> value = default_value(*field, initial, where);
    if (!value) continue;
    result.members.push_back(field->getName().str());
    result.operands.push_back(std::move(*value));
  }
  return result;
}

std::optional<Expr> BodyReader::read_default_object(const clang::VarDecl& variable) {
  const auto* record = variable.getType().getCanonicalType()->getAsCXXRecordDecl();
  const auto* construct = llvm::dyn_cast_or_null<clang::CXXConstructExpr>(
      variable.getInit() ? variable.getInit()->IgnoreImplicit() : nullptr);
  if (!record || !construct || get_home(*record) != Callee::Home::family || is_module_class(*record) ||
      !is_project_struct(*record))
    return std::nullopt;
  return construct->getConstructor()->isUserProvided() ? read(*construct)
                                                       : default_members(*record, variable.getLocation());
}

std::shared_ptr<const Expr> BodyReader::read_default(const clang::ParmVarDecl& parameter) {
  const bool is_read =
      parameter.hasDefaultArg() && !parameter.hasUnparsedDefaultArg() && !parameter.hasUninstantiatedDefaultArg();
  return is_read ? std::make_shared<const Expr>(read(*parameter.getDefaultArg())) : nullptr;
}

void BodyReader::read_global(const clang::VarDecl& variable, Expr& result) {
  result.kind = Expr::Kind::global;
  result.name = variable.getQualifiedNameAsString();
  result.may_change = !variable.getType().isConstant(context_);
  if (result.may_change || get_home(variable) != Callee::Home::family || variable.isConstexpr() ||
      variable.hasConstantInitialization())
    return;
  const clang::Expr* initial = defaults_ < kMostDefaults ? variable.getAnyInitializer() : nullptr;
  result.may_change = !initial;
  if (!initial) return;
  ++defaults_;
  result.operands.push_back(read(*initial));
  --defaults_;
}

}  // namespace modgen
