// The second stage, resolve: what each spec declares, who derives from whom, and where everything is in the text.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "generator/resolve/references.h"
#include "generator/source/names.h"
#include "generator/source/parsed.h"

namespace clang {
class CXXRecordDecl;
class CompilerInstance;
class Decl;
class FunctionDecl;
class NamedDecl;
class NamespaceDecl;
class TypedefNameDecl;
}  // namespace clang

namespace modgen {

struct Spec;

/// A slice of a spec's namespace or of a class, with the declarations in it.
struct Slice {
  SourceSpan whole;  // what gap ownership gives it
  SourceSpan core;   // the declarations' own tokens, without what precedes them as an attribute
  std::vector<clang::Decl*> decls;
};

/// What a spec declares under one name: a class with its holder, a config, a function with its overloads, a constant,
/// an alias.
struct Symbol {
  enum class Kind { module_class, plain_class, function, value };
  Kind kind = Kind::value;
  std::string name;  // of the holder where there is one: "LlamaMLP", "LlamaConfig", "rotate_half"
  Spec* spec = nullptr;
  const clang::CXXRecordDecl* record = nullptr;  // the class with the members; null for an alias
  const clang::CXXRecordDecl* holder = nullptr;
  std::vector<const clang::TypedefNameDecl*> aliases;
  std::string library;  // of `using X = LayerNorm`: the holder of libtorch or the contract that X means, as written
  std::string library_type;  // and its qualified name
  Symbol* base = nullptr;    // the symbol that it derives from or is an alias of, in any spec
  Symbol* under = nullptr;   // of Both<under, base>
  bool is_lookup = false;    // a using-declaration or a namespace alias
  bool stands_for = false;   // by STANDS_FOR: `replaced` is not just its base
  Symbol* replaced = nullptr;
  std::vector<const Slice*> slices;  // in source order
  SourceSpan where;                  // of its name
  std::vector<const clang::NamedDecl*> decls;

  bool is_class() const { return kind == Kind::module_class || kind == Kind::plain_class; }
  bool names_class() const { return is_class() || !library.empty(); }
  bool is_alias() const { return !record && base && is_class(); }
  bool declares_field(const std::string& field) const;
};

/// A member that is called otherwise in a family than in those that it inherits from.
struct MemberName {
  std::string owner;  // "BertPooler", the class that declares it; empty for every class
  std::string from, to;
  SourceSpan where;  // of the first name
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
  std::vector<Spec*> includes;         // other specs, directly
  std::vector<std::string> libraries;  // the other includes but the prelude: <cmath>
  std::vector<std::string> guarded;    // includes with the conditions around them, from #if to #endif
  std::string file_comment;            // before #pragma once
  std::vector<Slice> slices;           // of the namespace
  std::vector<Symbol*> symbols;        // in source order
  std::vector<Reference> references;   // in source order
  std::vector<SourceSpan> messages;    // strings that are prose for people
  bool sees(const Spec& other) const;  // itself or included, over any number of steps
  /// The prefixes that this family's classes put in the place of `base`'s, and how many do.
  const std::map<std::string, int>& prefixes_over(const Spec& base) const;
  size_t bases() const;  // how many families its classes derive from

 private:
  mutable std::map<const Spec*, std::map<std::string, int>> prefixes_;
};

/// All specs of a translation unit.
class Specs {
 public:
  Specs(clang::CompilerInstance& compiler, Parsed& parsed) : compiler_(compiler), parsed_(parsed) {}

  /// Reads the specs of the tree that were not there the last time. What it rejects is added to parsed.remarks.
  void read_new();

  Spec* family(const std::string& name) const;
  Spec* of_file(uint32_t file) const;
  /// The symbol that `decl` is or belongs to as class, holder, alias, constructor or overload; null where no spec
  /// declares it.
  Symbol* symbol(const clang::Decl* decl) const;
  /// The spec of a family's namespace; null for other namespaces.
  Spec* of_namespace(const clang::NamespaceDecl* space) const;

  /// Whether `symbol` is a class marked with MODEL_ENTRY.
  bool is_entry(const Symbol& symbol) const;

  const std::deque<std::unique_ptr<Spec>>& all() const { return specs_; }  // included ones first
  Parsed& parsed() const { return parsed_; }
  const clang::SourceManager& manager() const;
  clang::CompilerInstance& compiler() const { return compiler_; }

  /// Adds an error at `where`. `fix` mends it, where the text is known.
  void reject(SourceSpan where, std::string message, std::string advice = "", std::vector<Remark> notes = {},
              std::vector<Edit> fix = {}) const;

  /// Adds a warning at `where`.
  void warn(SourceSpan where, std::string message, std::string advice, std::vector<Remark> notes = {}) const;

  /// `function` where it has a body: itself, or its definition outside of its class.
  static const clang::FunctionDecl& defined(const clang::FunctionDecl& function);

  /// The members of `record` as slices, access specifiers among them; the last one is what stands before the closing
  /// brace.
  std::vector<Slice> members(const clang::CXXRecordDecl& record) const;

  /// The declarations in `region` as slices, with those together that share tokens (several declarators, one macro).
  /// Every byte belongs to one; the last one is what follows the last declaration.
  std::vector<Slice> slices(SourceSpan region, const std::vector<clang::Decl*>& decls) const;

 private:
  friend class SpecReader;
  clang::CompilerInstance& compiler_;
  Parsed& parsed_;
  std::set<uint32_t> files_;  // seen so far
  std::deque<std::unique_ptr<Spec>> specs_;
  std::deque<std::unique_ptr<Symbol>> symbols_;
  std::map<const clang::Decl*, Symbol*> by_decl_;  // by canonical declaration; looked up, never walked
};

/// The record that a class made by TORCH_MODULE holds; null for other classes.
const clang::CXXRecordDecl* held_by(const clang::CXXRecordDecl& record);

/// The annotations of the prelude on `decl`: kind without "modular." and the place of the macro that made it, in source
/// order.
struct AnnotationMacro {
  std::string kind;
  SourceSpan where;                     // TIED_TO(…) with its arguments
  std::vector<SourceSpan> expressions;  // the arguments' places
  std::vector<std::string> strings;     // the contents of string arguments
};
std::vector<AnnotationMacro> annotations(const clang::Decl& decl, const clang::SourceManager& manager,
                                         const Parsed& parsed);

}  // namespace modgen
