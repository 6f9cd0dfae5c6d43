#include "generator/model/model.h"

#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>
#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>
#include <map>

#include "generator/flatten/family.h"
#include "generator/model/body_reader.h"
#include "generator/model/read_body.h"
#include "generator/resolve/registrations.h"
#include "generator/resolve/specs.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

class ModelReader {
 public:
  ModelReader(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file)
      : manager_(compiler.getSourceManager()),
        parsed_(parsed),
        file_(file),
        text_(parsed.sources[file].text),
        declarations_(compiler.getASTContext()) {}

  void read(const clang::NamespaceDecl& space, FamilyModel& model) {
    InnerDeclarations inner(space);
    inner.name_local_classes();
    model.config_field_types = config_field_types(space.getASTContext(), declarations_);
    model.known_tasks = known_tasks(space.getASTContext());
    for (const clang::Decl* decl : space.decls()) {
      if (const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(decl)) {
        if (!record->isThisDeclarationADefinition()) continue;
        if (record->getLocation().isMacroID())
          name_holder(*record, model);
        else
          model.classes.push_back(read_class(*record, model));
      } else if (const auto* function = decl->getAsFunction()) {
        if (function->isThisDeclarationADefinition() && !function->isCXXClassMember())
          add_function(*decl, parsed_.span(manager_, *decl), model.functions, model);
      }
    }
    for (const clang::CXXRecordDecl* record : inner.classes())
      model.inner_classes.push_back(read_inner_class(*record, model));
    for (const clang::FunctionDecl* function : inner.friends()) add_inner_function(*function, model.friends, model);
    mark_varying(model);
  }

 private:
  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  SourceSpan token(clang::SourceLocation location) const { return parsed_.token(manager_, location); }
  std::string written(SourceSpan where) const { return std::string(parsed_.sources.text(where)); }

  void name_holder(const clang::CXXRecordDecl& holder, FamilyModel& model) const {
    for (Class& owner : model.classes)
      if (owner.name == holder.getName().str() + "Impl") owner.holder = holder.getName().str();
  }

  std::vector<Annotation> read_annotations(const clang::Decl& decl, std::vector<Edit>& edits) const {
    std::vector<Annotation> result;
    for (const AnnotationMacro& macro : annotations(decl, manager_, parsed_)) {
      Annotation annotation{macro.kind, macro.strings, macro.where};
      for (const SourceSpan& expression : macro.expressions) annotation.arguments.push_back(written(expression));
      result.push_back(std::move(annotation));
      SourceSpan removed = macro.where;
      while (removed.end < text_.size() && (text_[removed.end] == ' ' || text_[removed.end] == '\n')) ++removed.end;
      edits.push_back({removed, ""});
    }
    return result;
  }

  /// The access specifier of the trailing private members (kept bodies of base methods), or the closing brace.
  SourceSpan end_of_public_part(const clang::CXXRecordDecl& record, SourceSpan close) const {
    const clang::AccessSpecDecl* last = nullptr;
    for (const clang::Decl* decl : record.decls())
      if (const auto* access = llvm::dyn_cast<clang::AccessSpecDecl>(decl)) last = access;
    return last && last->getAccess() != clang::AS_public ? token(last->getAccessSpecifierLoc()) : close;
  }

  Class read_class(const clang::CXXRecordDecl& record, FamilyModel& model) {
    Class result;
    result.name = record.getName().str();
    result.where = token(record.getLocation());
    result.annotations = read_annotations(record, model.edits);
    for (const clang::CXXBaseSpecifier& base : record.bases()) {
      const auto* from = base.getType()->getAsCXXRecordDecl();
      const std::string name = from ? from->getQualifiedNameAsString() : std::string();
      if (from && is_module_class(*from) && name != "modular::Module") result.library_modules.push_back(name);
      if (name != "modular::Config") continue;
      result.is_config = true;
      const SourceSpan open = token(record.getBraceRange().getBegin());
      model.edits.push_back({{file_, result.where.end, open.begin}, " "});
    }
    result.runs_unseen = runs_unseen(record);
    std::vector<SourceSpan> cores;
    std::vector<std::vector<const clang::Decl*>> groups;
    for (const clang::Decl* decl : record.decls()) {
      if (decl->isImplicit()) continue;
      const SourceSpan core = parsed_.span(manager_, *decl);
      if (core.file != file_) continue;
      if (!cores.empty() && core.begin < cores.back().end) {
        cores.back().end = std::max(cores.back().end, core.end);
        groups.back().push_back(decl);
      } else {
        cores.push_back(core);
        groups.push_back({decl});
      }
    }
    const SourceSpan open = token(record.getBraceRange().getBegin()), close = token(record.getBraceRange().getEnd());
    const auto slices = own_gaps(text_, {file_, after_line_comment(text_, open.end), close.begin}, cores);
    for (size_t index = 0; index < groups.size(); ++index) {
      bool first = true;
      for (const clang::Decl* decl : groups[index]) {
        if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl)) {
          result.fields.push_back(read_field(*field, slices[index], first));
          first = false;
        } else if (decl->getAsFunction()) {
          add_function(*decl, slices[index], result.functions, model);
        }
      }
    }
    for (const clang::CXXConstructorDecl* constructor : record.ctors())
      if (!constructor->isImplicit()) read_registrations(*constructor, result);
    if (result.is_config) {
      const uint32_t next = end_of_public_part(record, close).begin;
      uint32_t at = next;
      while (at > open.end && std::isspace(static_cast<unsigned char>(text_[at - 1]))) --at;
      result.visitor = {file_, at, next};
    }
    return result;
  }

  /// A class inside another class or a function, whose text is part of that one's.
  Class read_inner_class(const clang::CXXRecordDecl& record, FamilyModel& model) {
    Class result;
    const std::string name = declarations_.type_name(record.getASTContext().getRecordType(&record));
    result.name = name.substr(std::min(("modular::" + model.name + "::").size(), name.size()));
    result.where = token(record.getLocation());
    result.runs_unseen = runs_unseen(record);
    for (const clang::FieldDecl* field : record.fields()) result.fields.push_back(read_field(*field, {}, false));
    std::set<std::string> names;
    const std::function<void(const clang::CXXRecordDecl&)> find_ambiguous = [&](const clang::CXXRecordDecl& part) {
      if (token(part.getLocation()).file != file_) return;
      for (const clang::FieldDecl* field : part.fields())
        if (!names.insert(field->getNameAsString()).second) result.ambiguous_field = field->getNameAsString();
      for (const clang::CXXBaseSpecifier& base : part.bases())
        if (const auto* from = base.getType()->getAsCXXRecordDecl(); from && from->hasDefinition())
          find_ambiguous(*from->getDefinition());
    };
    find_ambiguous(record);
    for (const clang::Decl* decl : record.decls())
      if (!decl->isImplicit() && decl->getAsFunction() && !llvm::isa<clang::FriendDecl>(decl))
        add_inner_function(*decl, result.functions, model);
    return result;
  }

  void add_inner_function(const clang::Decl& decl, std::vector<Function>& functions, FamilyModel& model) {
    add_function(decl, {}, functions, model);
    functions.back().is_inner = true;
  }

  /// Whether the class or a member of it, declared by the family, has a user-defined copy constructor or destructor.
  bool runs_unseen(const clang::CXXRecordDecl& record) const {
    if (!record.hasDefinition() || token(record.getLocation()).file != file_) return false;
    const clang::CXXDestructorDecl* destructor = record.getDestructor();
    return (destructor && destructor->isUserProvided()) ||
           std::any_of(record.ctor_begin(), record.ctor_end(),
                       [](const clang::CXXConstructorDecl* constructor) {
                         return constructor->isCopyOrMoveConstructor() && constructor->isUserProvided();
                       }) ||
           std::any_of(record.field_begin(), record.field_end(), [&](const clang::FieldDecl* field) {
             const auto* inner = field->getType()->getAsCXXRecordDecl();
             return inner && runs_unseen(*inner);
           });
  }

  Field read_field(const clang::FieldDecl& decl, SourceSpan slice, bool owns_text) {
    Field field;
    field.name = decl.getName().str();
    field.type = written(span(decl.getTypeSourceInfo()->getTypeLoc().getSourceRange()));
    field.canonical = declarations_.type_name(decl.getType());
    field.modules = modules_in(decl.getType());
    field.is_plain = is_plain(decl.getType());
    field.is_const = decl.getType().isConstQualified() || decl.getType()->isReferenceType();
    field.where = token(decl.getLocation());
    const clang::Expr* initial = decl.hasInClassInitializer() ? decl.getInClassInitializer() : nullptr;
    field.is_initially_shared = initial && reads_object(*initial);
    if (field.is_initially_shared)
      field.initial = std::make_shared<Expr>(read_value(*initial, decl.getASTContext(), declarations_, file_));
    field.text.slice = owns_text ? slice : SourceSpan{slice.file, slice.end, slice.end};
    std::vector<Edit> edits;
    field.annotations = read_annotations(decl, edits);
    if (owns_text) field.text.edits = std::move(edits);  // declarators share their annotations
    return field;
  }

  /// Adds a function, or a template and its instances. The text is that of `decl`, or of a method's definition after
  /// its class; instances have no text.
  void add_function(const clang::Decl& decl, SourceSpan slice, std::vector<Function>& functions, FamilyModel& model) {
    const clang::FunctionDecl &declared = *decl.getAsFunction(), &function = Specs::defined(declared);
    const bool is_outside = declared.isCXXClassMember() && &function != &declared;
    functions.push_back(read_function(function));
    functions.back().is_inner = is_outside;
    functions.back().text.push_back({is_outside ? span(function.getSourceRange()) : slice, {}});
    const auto* function_template = llvm::dyn_cast<clang::FunctionTemplateDecl>(&decl);
    if (!function_template) return;
    functions.back().is_template = true;
    for (const clang::FunctionDecl* instance : function_template->specializations()) {
      model.instances.push_back(read_function(*instance));
      model.instances.back().is_instance = true;
    }
  }

  Function read_function(const clang::FunctionDecl& decl) {
    Function function;
    function.name = decl.getNameAsString();
    function.signature = declarations_.callee(decl).signature;
    function.is_constructor = llvm::isa<clang::CXXConstructorDecl>(decl);
    function.where = token(decl.getLocation());
    if (const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&decl)) {
      function.is_static = method->isStatic();
      function.is_const = method->isConst();
      function.is_virtual = method->isVirtual();
      function.is_reference_qualified = method->getRefQualifier() != clang::RQ_None;
    }
    if (const clang::FunctionTypeLoc type = decl.getFunctionTypeLoc()) {
      function.parameter_list = span(type.getParensRange());
      if (!function.is_constructor) {
        function.return_type = written(span(type.getReturnLoc().getSourceRange()));
        function.result = declarations_.type_name(decl.getReturnType());
        function.result_hides_tensors = hides_tensors(decl.getReturnType());
        const auto* deduced = decl.getDeclaredReturnType()->getContainedAutoType();
        function.deduces_result = deduced != nullptr;
        function.has_trailing_result = decl.getType()->castAs<clang::FunctionProtoType>()->hasTrailingReturn();
      }
    }
    for (const clang::ParmVarDecl* parameter : decl.parameters()) {
      Parameter& added = function.parameters.emplace_back();
      added.name = parameter->getNameAsString();
      added.type = parameter_type(*parameter);
      added.name_at = token(parameter->getLocation()).begin;
      added.hides_tensors = hides_tensors(parameter->getType());
    }
    function.body = read_body(decl, declarations_, file_, function.parameters);
    return function;
  }

  std::string parameter_type(const clang::ParmVarDecl& parameter) const {
    const SourceSpan declaration = span(parameter.getSourceRange()), name = token(parameter.getLocation());
    std::string type = written({file_, declaration.begin, parameter.getDeclName() ? name.begin : declaration.end});
    while (!type.empty() && std::isspace(static_cast<unsigned char>(type.back()))) type.pop_back();
    return type;
  }

  using ClassPredicate = bool (*)(const clang::CXXRecordDecl& record);

  static bool is_module(const clang::CXXRecordDecl& record) {
    return is_module_class(record) || record.getQualifiedNameAsString() == "torch::nn::AnyModule";
  }
  static bool is_tensor(const clang::CXXRecordDecl& record) {
    return record.getQualifiedNameAsString() == "at::Tensor";
  }

  /// The type arguments of a class template specialization.
  static std::vector<clang::QualType> get_arguments(const clang::CXXRecordDecl& record) {
    std::vector<clang::QualType> types;
    const auto* special = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(&record);
    if (!special) return types;
    for (const clang::TemplateArgument& argument : special->getTemplateArgs().asArray())
      for (const clang::TemplateArgument& element :
           argument.getKind() == clang::TemplateArgument::Pack ? argument.pack_elements() : llvm::ArrayRef(argument))
        if (element.getKind() == clang::TemplateArgument::Type) types.push_back(element.getAsType());
    return types;
  }

  /// Whether `type` is a class for which `matches` holds, or contains or points to one at any depth.
  bool mentions(clang::QualType type, ClassPredicate matches, int depth = 0) const {
    if (depth > 8) return false;
    type = type.getNonReferenceType().getCanonicalType();
    if (type->isPointerType()) return mentions(type->getPointeeType(), matches, depth + 1);
    if (type->isArrayType()) return mentions({type->getPointeeOrArrayElementType(), 0}, matches, depth + 1);
    const auto* record = type->getAsCXXRecordDecl();
    if (!record) return false;
    if (matches(*record)) return true;
    for (const clang::QualType argument : get_arguments(*record))
      if (mentions(argument, matches, depth + 1)) return true;
    if (!record->hasDefinition()) return false;
    for (const clang::CXXBaseSpecifier& base : record->bases())
      if (mentions(base.getType(), matches, depth + 1)) return true;
    return token(record->getLocation()).file == file_ &&
           std::any_of(record->field_begin(), record->field_end(),
                       [&](const clang::FieldDecl* field) { return mentions(field->getType(), matches, depth + 1); });
  }

  /// Whether a value of that type is made of numbers, strings, and containers and structs of them.
  bool is_plain(clang::QualType type, int depth = 0) const {
    if (depth > 8 || (type->isReferenceType() && !type.getNonReferenceType().isConstQualified())) return false;
    type = type.getNonReferenceType().getCanonicalType();
    const bool is_text = type->isPointerType() && type->getPointeeType()->isCharType();
    if (type->isArithmeticType() || type->isEnumeralType() || is_text) return true;
    if (type->isArrayType()) return is_plain({type->getPointeeOrArrayElementType(), 0}, depth + 1);
    const auto* record = type->getAsCXXRecordDecl();
    if (!record || !record->hasDefinition()) return false;
    if (record->isInStdNamespace()) {
      // Further arguments of containers are allocators, comparisons and hashes.
      static const std::map<llvm::StringRef, size_t> kArguments = {{"basic_string", 0},  {"basic_string_view", 0},
                                                                   {"vector", 1},        {"array", 1},
                                                                   {"deque", 1},         {"list", 1},
                                                                   {"optional", 1},      {"set", 1},
                                                                   {"unordered_set", 1}, {"map", 2},
                                                                   {"unordered_map", 2}, {"pair", 2},
                                                                   {"tuple", 8},         {"variant", 8},
                                                                   {"complex", 1},       {"monostate", 0}};
      const auto known = kArguments.find(record->getName());
      if (known == kArguments.end()) return false;
      std::vector<clang::QualType> held = get_arguments(*record);
      if (held.size() > known->second && known->second == 8) return false;
      held.resize(std::min(held.size(), known->second));
      return std::ranges::all_of(held, [&](clang::QualType one) { return is_plain(one, depth + 1); });
    }
    const Callee::Home home = get_home(*record);
    return (home == Callee::Home::family || home == Callee::Home::contract) && !is_module_class(*record) &&
           !record->isUnion() &&
           std::all_of(record->bases_begin(), record->bases_end(),
                       [&](const clang::CXXBaseSpecifier& base) { return is_plain(base.getType(), depth + 1); }) &&
           std::all_of(record->field_begin(), record->field_end(),
                       [&](const clang::FieldDecl* field) { return is_plain(field->getType(), depth + 1); });
  }

  /// Whether the contract's for_each_tensor misses tensors in a value of that type.
  bool hides_tensors(clang::QualType type) const {
    const auto* record = type.getNonReferenceType().getCanonicalType()->getAsCXXRecordDecl();
    if (!record) return mentions(type, is_tensor);
    if (is_tensor(*record)) return false;
    if (record->hasDefinition())
      for (const clang::NamedDecl* member : record->lookup(&record->getASTContext().Idents.get("tensors")))
        if (member) return false;
    const std::string name = record->getQualifiedNameAsString();
    const std::vector<clang::QualType> arguments = get_arguments(*record);
    if (name == "std::pair" || name == "std::tuple" || name == "std::array" || name == "std::optional")
      return std::ranges::any_of(arguments, [&](clang::QualType argument) { return hides_tensors(argument); });
    if (name == "std::vector" && !arguments.empty())
      if (const auto* element = arguments[0]->getAsCXXRecordDecl(); element && is_tensor(*element)) return false;
    return mentions(type, is_tensor);
  }

  /// Whether `type` is a class defined by TORCH_MODULE, or a ModuleListOf or OneOf of such classes.
  bool is_holder(clang::QualType type) const {
    const auto* record = type.getCanonicalType()->getAsCXXRecordDecl();
    if (!record || type->isReferenceType()) return false;
    const auto* special = llvm::dyn_cast<clang::ClassTemplateSpecializationDecl>(record);
    if (!special) return held_by(*record) != nullptr;
    const bool groups = special->getName() == "ModuleListOf" || special->getName() == "OneOf";
    return groups &&
           std::ranges::all_of(get_arguments(*record), [&](clang::QualType argument) { return is_holder(argument); });
  }

  Field::Modules modules_in(clang::QualType type) const {
    if (is_holder(type)) return Field::Modules::by_holder;
    return mentions(type, is_module) ? Field::Modules::otherwise : Field::Modules::none;
  }

  static void read_registrations(const clang::CXXConstructorDecl& constructor, Class& result) {
    const auto set_name = [&](const clang::NamedDecl* member, const clang::Stmt* value) {
      for (Field& field : result.fields)
        if (member && field.name == member->getNameAsString())
          if (const std::string name = registered_name(value); !name.empty()) field.registered_as = name;
    };
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten() && init->isAnyMemberInitializer()) set_name(init->getAnyMember(), init->getInit());
    if (!constructor.hasBody()) return;
    for (const clang::Stmt* statement : constructor.getBody()->children()) {
      const auto* expr = llvm::dyn_cast_or_null<clang::Expr>(statement);
      if (!expr) continue;
      const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(expr->IgnoreImplicit());
      if (!call || call->getOperator() != clang::OO_Equal) continue;
      if (const auto* member = llvm::dyn_cast<clang::MemberExpr>(call->getArg(0)->IgnoreParenImpCasts()))
        set_name(member->getMemberDecl(), call->getArg(1));
    }
  }

  const clang::SourceManager& manager_;
  const Parsed& parsed_;
  uint32_t file_;
  const std::string& text_;
  Declarations declarations_;
};

}  // namespace

const clang::NamespaceDecl* flattened_namespace(const clang::CompilerInstance& compiler, const Parsed& parsed,
                                                uint32_t file) {
  const auto& manager = compiler.getSourceManager();
  for (const clang::Decl* decl : parsed.top_level) {
    const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl);
    if (!space || parsed.token(manager, space->getLocation()).file != file) continue;
    for (int depth = 0; depth < 2 && space; ++depth) {
      const clang::NamespaceDecl* inner = nullptr;
      for (const clang::Decl* child : space->decls())
        if (const auto* nested = llvm::dyn_cast<clang::NamespaceDecl>(child)) inner = nested;
      space = inner;
    }
    return space;
  }
  return nullptr;
}

FamilyModel read_model(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file, std::string name,
                       std::string prefix) {
  FamilyModel model;
  model.name = std::move(name);
  model.prefix = std::move(prefix);
  model.text = parsed.sources[file].text;
  model.file = file;
  if (const auto* space = flattened_namespace(compiler, parsed, file))
    ModelReader(compiler, parsed, file).read(*space, model);
  return model;
}

}  // namespace modgen
