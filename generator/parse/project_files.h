// Project files, as the preprocessor reads them.
#pragma once

#include <clang/Lex/PPCallbacks.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
class MacroInfo;
}  // namespace clang

namespace modgen {

// Files in memory: the prelude; the file after each spec, which is empty or includes the flattened texts; those texts.
inline constexpr char kPrelude[] = "/modgen-prelude.h";
inline constexpr char kNextFolder[] = "/modgen-next/";
inline constexpr char kFlattenedFolder[] = "/modgen-flattened/";

/// Records in `parsed` the preprocessor's view of the project: files, includes and the include candidates that it
/// tried, macros, conditions.
class ProjectFiles : public clang::PPCallbacks {
 public:
  ProjectFiles(const ParseOptions& options, bool root_is_searched, clang::CompilerInstance& compiler, Parsed& parsed)
      : options_(options), root_is_searched_(root_is_searched), compiler_(compiler), parsed_(parsed) {}

  /// Sets the target of each inclusion, once the files are in the table.
  void resolve_inclusions();

  void FileChanged(clang::SourceLocation location, FileChangeReason reason, clang::SrcMgr::CharacteristicKind kind,
                   clang::FileID) override;
  void InclusionDirective(clang::SourceLocation hash, const clang::Token&, llvm::StringRef name, bool angled,
                          clang::CharSourceRange, clang::OptionalFileEntryRef found, llvm::StringRef, llvm::StringRef,
                          const clang::Module*, bool, clang::SrcMgr::CharacteristicKind) override;
  void MacroDefined(const clang::Token& name, const clang::MacroDirective* directive) override;
  void MacroUndefined(const clang::Token& name, const clang::MacroDefinition&, const clang::MacroDirective*) override;
  void MacroExpands(const clang::Token& name, const clang::MacroDefinition& definition, clang::SourceRange,
                    const clang::MacroArgs*) override;
  void If(clang::SourceLocation at, clang::SourceRange, ConditionValueKind) override { open(at); }
  void Ifdef(clang::SourceLocation at, const clang::Token&, const clang::MacroDefinition&) override { open(at); }
  void Ifndef(clang::SourceLocation at, const clang::Token& name, const clang::MacroDefinition&) override;
  void Endif(clang::SourceLocation at, clang::SourceLocation) override;

 private:
  void open(clang::SourceLocation at);
  void add_implicit_text(clang::FileEntryRef spec);
  const std::set<std::string>& modules_of_spec(const std::string& name);
  const std::set<std::string>& contract_modules();

  const ParseOptions& options_;
  bool root_is_searched_;
  clang::CompilerInstance& compiler_;
  Parsed& parsed_;
  std::vector<std::pair<size_t, std::string>> pending_;
  std::map<const clang::MacroInfo*, size_t> definitions_;  // looked up, never iterated
  std::map<uint32_t, int> depth_;                          // depth of conditions by file, without include guards
  std::map<const clang::FileEntry*, std::vector<ImplicitText>>
      implicit_;                                          // text added to each spec; looked up, never iterated
  std::map<std::string, std::set<std::string>> modules_;  // keyed by spec name
  std::optional<std::set<std::string>> contract_modules_;
};

/// The declarations that the text `spec` omits, in source order:
///
/// - `TORCH_MODULE(X);` after a module class;
/// - `using YImpl::YImpl;` in a module class that derives from YImpl and declares no constructor;
/// - `register_module("member", …)` around a module that a constructor creates for a member.
///
/// `modules` are the names of other module classes that the spec sees. Text that is not C++ gets none.
std::vector<ImplicitText> find_implicit_text(const std::string& spec, const std::set<std::string>& modules);

/// The holders that find_implicit_text declares for `spec`: "LlamaMLP".
std::vector<std::string> find_implicit_holders(const std::string& spec);

/// The names of the module classes that `text`, a spec or the contract, declares, including aliases.
std::set<std::string> declared_modules(const std::string& text, const std::set<std::string>& modules);

/// The specs that `spec` includes: "llama".
std::vector<std::string> included_specs(const std::string& spec);

}  // namespace modgen
