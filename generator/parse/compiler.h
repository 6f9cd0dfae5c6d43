// Setup of Clang.
#pragma once

#include <clang/Basic/Diagnostic.h>

#include <memory>
#include <vector>

#include "generator/source/parsed.h"

namespace clang {
class CompilerInstance;
}  // namespace clang

namespace modgen {

/// Collects the compiler's diagnostics. Notes go with their errors.
class Remarks : public clang::DiagnosticConsumer {
 public:
  explicit Remarks(Parsed& parsed) : parsed_(parsed) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override;

 private:
  /// Clang's fix-it, if it only edits project files.
  std::vector<Edit> find_fix(const clang::Diagnostic& info) const;

  Parsed& parsed_;
};

/// A compiler without inputs. `header` configures it for the prelude, which is the same for every root.
std::unique_ptr<clang::CompilerInstance> make_compiler(const ParseOptions& options, bool header, Remarks& remarks);

}  // namespace modgen
