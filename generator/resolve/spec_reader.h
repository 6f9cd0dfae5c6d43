// Reads one spec: its declarations, and the mistakes in them that Clang does not report.
#pragma once

#include <clang/AST/TypeLoc.h>
#include <clang/Basic/SourceLocation.h>

#include <string>
#include <string_view>
#include <vector>

#include "generator/resolve/specs.h"

namespace clang {
class AnnotateAttr;
class TypeAliasDecl;
class VarDecl;
}  // namespace clang

namespace modgen {

/// Fills a spec, whose name and file are set, and adds its symbols to all specs. Errors are added to the remarks of the
/// parse.
class SpecReader {
 public:
  SpecReader(Specs& specs, Spec& spec)
      : specs_(specs), spec_(spec), parsed_(specs.parsed()), manager_(specs.manager()) {}

  void read();

 private:
  SourceSpan core(const clang::Decl& decl) const { return parsed_.span(manager_, decl); }

  void check_line_lengths();
  /// Rejects names whose value depends on the location, and comments of which a backslash continues the line.
  void check_tokens();
  void find_namespace();
  void reject_outside_namespace(const clang::Decl& decl);
  void read_head();
  void slice_namespace();
  Symbol& add(const clang::NamedDecl& decl, Symbol::Kind kind, std::string name, const Slice& slice);
  /// Adds `decl`, which is `function` or its template, to the function of its name.
  Symbol& add_function(const clang::NamedDecl& decl, const clang::FunctionDecl& function, const Slice& slice);
  void extend(Symbol& symbol, const clang::NamedDecl& decl, const Slice& slice);
  Symbol* named(std::string_view name);
  void read_slice(const Slice& slice);

  /// Whether a using-declaration or a namespace alias names declarations of specs.
  bool names_a_spec(const clang::NamedDecl& decl) const;

  /// A method that is defined outside its class replaces its declaration there, so its parameters need the same names.
  void read_definition(const clang::FunctionDecl& function);
  void check_template_parameters(const clang::FunctionDecl& function, const clang::FunctionDecl& declared);

  /// Rejects definitions outside of a class that are not the body of a method.
  bool reject_outside_class(const clang::Decl& decl);

  /// Reads the arguments of MODULAR_FAMILY: a constant of the prelude's FamilyNames.
  void read_names(const clang::VarDecl& variable);

  /// Rejects declarations that a macro makes, except for TORCH_MODULE.
  bool made_by_macro(const clang::Decl& decl);
  void read_class(const clang::CXXRecordDecl& record, const Slice& slice);

  /// `Both<YImpl, ZImpl>`; null for other types.
  static clang::TemplateSpecializationTypeLoc arguments_of_both(clang::TypeLoc loc);

  /// Whether both derive from one class, and neither from the other.
  static bool have_common_base(const Symbol& one, const Symbol& other);
  void read_stands_for(Symbol& symbol, const clang::AnnotateAttr& note);

  /// The symbol that a written type names. Looks through the family's Its<…>.
  Symbol* type_symbol(clang::TypeLoc loc);

  /// The class that `family::Its<base>` names: the family's declared replacement, or the inferred class.
  Symbol* its_symbol(clang::TemplateSpecializationTypeLoc loc);

  /// The counterpart of `inner` in `family`, through each family between the two.
  Symbol* inferred_in(Spec& family, Symbol& inner, SourceSpan where);

  /// The one family that all classes of `family` derive from; null if they derive from several.
  static Spec* only_base(const Spec& family);
  void read_alias(const clang::TypeAliasDecl& alias, const Slice& slice);

  /// Reads `using X = LayerNorm` or `using XImpl = LayerNormImpl`, an alias of a module class that no spec declares: X
  /// means that class.
  bool read_library_alias(const clang::TypeAliasDecl& alias, const Slice& slice);
  static const clang::CXXRecordDecl* target_record(const Symbol& symbol);

  /// Rejects a using-declaration of a spec's function next to a function of that name.
  void check_used_functions();

  std::vector<const clang::UsingDecl*> used_;  // using-declarations of specs' declarations
  Specs& specs_;
  Spec& spec_;
  Parsed& parsed_;
  const clang::SourceManager& manager_;
};

/// A variable or member that its own initializer reads. Compilers only warn about these, and only about some.
struct SelfRead {
  std::string name;
  clang::SourceLocation where;
};

/// The self-reads in `space`, in source order. Taking the address does not count, nor does a lambda that captures a
/// reference.
std::vector<SelfRead> self_reads(const clang::NamespaceDecl& space);

/// A form of C++ that modgen cannot flatten, wherever it is.
struct UnsupportedForm {
  std::string name, advice;
  clang::SourceLocation where;
};
/// Those in `space`, in source order.
std::vector<UnsupportedForm> unsupported_forms(const clang::NamespaceDecl& space);

/// A member of a base that code of `space` names of an object of the base, where the same code also sees an object of a
/// class that declares the member again as one of the base: by a conversion, a copy, or a function's result. The base's
/// methods may also have handed such an object on to the code. C++ means the base's member, and the one class that
/// flattening makes has only the other.
struct BaseView {
  std::string name, base;
  std::string in;  // the function template of another spec that names the member for the code at `where`, if one does
  clang::SourceLocation where;
};
std::vector<BaseView> base_views(const clang::NamespaceDecl& space);

/// An object of a base's class that code of a spec makes, where the spec replaces that class by one whose objects
/// differ. C++ makes an object of the base.
struct BaseObject {
  const Symbol *base, *replacement;
  enum class Kind { object, part, argument } kind;  // part: a copy of the base's part of an object
  clang::SourceLocation where;
};
std::vector<BaseObject> base_objects(const Specs& specs, const Spec& spec);

}  // namespace modgen
