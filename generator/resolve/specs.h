// The second stage, resolve: the declarations of each spec, the inheritance among them, and their source locations.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "generator/resolve/references.h"
#include "generator/resolve/texts.h"
#include "generator/source/annotations.h"
#include "generator/source/names.h"
#include "generator/source/parsed.h"

namespace clang {
class CXXRecordDecl;
class CompilerInstance;
class Decl;
class FunctionDecl;
class NamedDecl;
class NamespaceDecl;
class StringLiteral;
class TypedefNameDecl;
}  // namespace clang

namespace modgen {

struct Spec;

/// A slice of a spec's namespace or of a class, with the declarations in it.
struct Slice {
  SourceSpan whole;  // the slice with the gaps that it owns
  SourceSpan core;   // the declarations' own tokens, without preceding attributes
  std::vector<clang::Decl*> decls;
};

struct Symbol;

/// Name and parameters of an operator; empty for other functions.
struct Signature {
  std::string text = {};                    // with '%' for each class and enum of a spec
  std::vector<const Symbol*> classes = {};  // these
};

/// A spec's declarations of one name: a class with its holder, a config, a function with its overloads, a constant, an
/// alias. Each overload of an operator is a symbol, because C++ finds operators by their arguments.
struct Symbol {
  enum class Kind { module_class, plain_class, function, value };
  Kind kind = Kind::value;
  std::string name;  // the holder's name if it has one: "LlamaMLP", "LlamaConfig", "rotate_half"
  Spec* spec = nullptr;
  const clang::CXXRecordDecl* record = nullptr;  // the class with the members; null for an alias
  const clang::CXXRecordDecl* holder = nullptr;
  std::vector<const clang::TypedefNameDecl*> aliases;
  std::string library;  // for `using X = LayerNorm`: the holder of libtorch or the contract that X means, as written
  std::string library_type;  // its qualified name
  Symbol* base = nullptr;    // the symbol that it derives from or aliases, in any spec
  Symbol* under = nullptr;   // the first class in Both<under, base>
  bool is_lookup = false;    // a using-declaration or a namespace alias
  bool stands_for = false;   // has STANDS_FOR: `replaced` may differ from its base
  Symbol* replaced = nullptr;
  std::vector<const Slice*> slices;  // in source order
  SourceSpan where;                  // location of its name
  std::vector<const clang::NamedDecl*> decls;
  Signature signature;  // of an operator

  bool is_class() const { return kind == Kind::module_class || kind == Kind::plain_class; }
  bool names_class() const { return is_class() || !library.empty(); }
  bool names_type() const;  // a class or an enum of the spec
  bool is_alias() const { return !record && base && is_class(); }
  bool declares_field(const std::string& field) const;
};

/// A member that a family renames from the families that it inherits from.
struct MemberName {
  std::string owner;  // "BertPooler", the class that declares it; empty for every class
  std::string from, to;
  SourceSpan where;  // location of the first name
};

/// One modular/<family>.h.
struct Spec {
  std::string name;    // "gemma"
  std::string prefix;  // "Gemma"
  Names names;
  std::vector<MemberName> members;
  uint32_t file = 0;
  SourceSpan family;  // the call of MODULAR_FAMILY
  const clang::NamespaceDecl* space = nullptr;
  std::vector<Spec*> includes;                // other specs, directly
  std::vector<std::string> libraries;         // other includes, without the prelude: <cmath>
  std::vector<std::string> guarded;           // includes with the conditions around them, from #if to #endif
  std::string file_comment;                   // before #pragma once
  std::vector<Slice> slices;                  // slices of the namespace
  std::vector<Symbol*> symbols;               // in source order
  std::vector<Reference> references;          // in source order
  Texts texts;                                // strings for people
  std::set<std::string> called_by_arguments;  // names of functions that templates call, which their arguments find
  bool sees(const Spec& other) const;         // whether `other` is this spec or included, directly or indirectly
  /// The prefixes that this family's classes put before the names of `base`'s classes, with the number of classes for
  /// each.
  const std::map<std::string, int>& prefixes_over(const Spec& base) const;
  size_t bases() const;  // number of families that its classes derive from

 private:
  mutable std::map<const Spec*, std::map<std::string, int>> prefixes_;
};

/// All specs of a translation unit.
class Specs {
 public:
  Specs(clang::CompilerInstance& compiler, Parsed& parsed) : compiler_(compiler), parsed_(parsed) {}

  /// Reads the specs added to the tree since the last call. Errors are added to parsed.remarks.
  void read_new();

  Spec* family(const std::string& name) const;
  Spec* of_file(uint32_t file) const;
  /// The symbol that `decl` belongs to, as class, holder, alias, constructor, overload or enumerator; null if no spec
  /// declares it.
  Symbol* symbol(const clang::Decl* decl) const;
  /// The spec of a family's namespace; null for other namespaces.
  Spec* of_namespace(const clang::NamespaceDecl* space) const;

  /// Whether the string is text for people.
  bool is_text(const clang::StringLiteral& literal) const;

  /// Whether `symbol` is a class marked with MODEL_ENTRY.
  bool is_entry(const Symbol& symbol) const;

  const std::deque<std::unique_ptr<Spec>>& all() const { return specs_; }  // included ones first
  Parsed& parsed() const { return parsed_; }
  const clang::SourceManager& manager() const;
  clang::CompilerInstance& compiler() const { return compiler_; }

  /// Adds an error at `where`. `fix` holds the edits that correct it, if known.
  void reject(SourceSpan where, std::string message, std::string advice = "", std::vector<Remark> notes = {},
              std::vector<Edit> fix = {}) const;

  /// Adds a warning at `where`.
  void warn(SourceSpan where, std::string message, std::string advice, std::vector<Remark> notes = {}) const;

  /// The declaration of `function` with a body: itself, or its definition outside its class.
  static const clang::FunctionDecl& defined(const clang::FunctionDecl& function);

  /// The members of `record` as slices, including access specifiers; the last slice is the text before the closing
  /// brace.
  std::vector<Slice> members(const clang::CXXRecordDecl& record) const;

  /// The declarations in `region` as slices. Declarations that share tokens (several declarators, one macro) share a
  /// slice. Every byte belongs to one slice; the last slice is the text after the last declaration.
  std::vector<Slice> slices(SourceSpan region, const std::vector<clang::Decl*>& decls) const;

 private:
  friend class SpecReader;
  clang::CompilerInstance& compiler_;
  Parsed& parsed_;
  std::set<uint32_t> files_;  // seen so far
  std::deque<std::unique_ptr<Spec>> specs_;
  std::deque<std::unique_ptr<Symbol>> symbols_;
  std::map<const clang::Decl*, Symbol*> by_decl_;  // keyed by canonical declaration; looked up, never iterated
};

/// The record that a TORCH_MODULE class holds; null for other classes.
const clang::CXXRecordDecl* held_by(const clang::CXXRecordDecl& record);

/// The prelude's annotations on `decl`, in source order.
struct AnnotationMacro {
  AnnotationKind kind;
  SourceSpan where;                     // TIED_TO(…) with its arguments
  std::vector<SourceSpan> expressions;  // locations of the arguments
  std::vector<std::string> strings;     // the contents of string arguments
};
std::vector<AnnotationMacro> annotations(const clang::Decl& decl, const clang::SourceManager& manager,
                                         const Parsed& parsed);

/// The prefix of inherited classes of family `base` that code of `symbol` reaches: the one that `symbol` itself puts
/// before its own base's name ("LlavaVision" in LlavaVisionEncoder : CLIPEncoder), otherwise the one that its family's
/// classes agree on, otherwise the family's own. A prefix that only one class has does not count if other classes have
/// the family's own.
std::string prefix_given(const Symbol& symbol, const Spec& base);
/// As above, for code of `family` outside classes.
std::string prefix_given(const Spec& family, const Spec& base);

/// The replacement that `family` declares for `symbol`, a symbol of a family that it inherits from, on a path where
/// inherited classes get `prefix`; null if it declares none.
Symbol* covering(const Spec& family, const Symbol& symbol, const std::string& prefix);

/// `family`'s names with another class prefix.
Names names_with(const Spec& family, std::string prefix);

}  // namespace modgen
