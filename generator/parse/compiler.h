// Setup of Clang: the compiler, and the precompiled prelude.
#pragma once

#include <clang/Basic/Diagnostic.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
class SourceLocation;
class SourceManager;
}  // namespace clang

namespace modgen {

/// Collects the compiler's diagnostics. Notes go with their errors.
class Remarks : public clang::DiagnosticConsumer {
 public:
  explicit Remarks(Parsed& parsed) : parsed_(parsed) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override;

 private:
  /// The end of the spec that the main file includes before `location`: an error about the end of a spec is at the
  /// token after it. No file if `location` is not in the main file.
  SourceSpan end_of_spec_before(const clang::SourceManager& manager, clang::SourceLocation location) const;
  /// Clang's fix-it, if it only edits project files.
  std::vector<Edit> find_fix(const clang::Diagnostic& info) const;

  Parsed& parsed_;
};

/// A compiler without inputs. `header` configures it for the prelude, which is the same for every root.
std::unique_ptr<clang::CompilerInstance> make_compiler(const ParseOptions& options, bool header, Remarks& remarks);

/// Precedes modular/modular.h in the precompiled prelude.
extern const std::string_view kStubLibrary;
/// Follows modular/modular.h in the precompiled prelude.
extern const std::string_view kStubPrelude;

/// Comes last in the precompiled prelude: uses of declarations that nearly every spec uses. Anything that Clang derives
/// to compile them, such as the special members of Tensor, is then in the prelude and not derived again in each run.
extern const std::string_view kUsedByMost;

/// Returns the path of the precompiled prelude. Builds it if the cache does not have it or has a damaged one. If the
/// cache is not writable, uses a folder for temporary files and adds a notice. Adds the prelude's inputs, and the
/// include candidates that did not exist, to `parsed`. Throws std::runtime_error if it does not compile.
std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed);

}  // namespace modgen
