#include "generator/parse/compiler.h"

#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/Utils.h>
#include <clang/Lex/Lexer.h>

#include <stdexcept>

#include "generator/parse/unix_lines.h"
#include "generator/source/language.h"

namespace modgen {

void Remarks::HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) {
  clang::DiagnosticConsumer::HandleDiagnostic(level, info);
  llvm::SmallString<256> message;
  info.FormatDiagnostic(message);
  Remark remark{Diagnostic::Severity::error, {}, message.str().str(), "", {}};
  if (info.hasSourceManager() && info.getLocation().isValid())
    remark.where = parsed_.token(info.getSourceManager(), info.getLocation());
  if (level >= clang::DiagnosticsEngine::Error) remark.fix = find_fix(info);
  if (level == clang::DiagnosticsEngine::Note) {
    remark.severity = Diagnostic::Severity::note;
    if (remark.where.file == 0 || parsed_.remarks.empty()) return;
    // An error in a library's header belongs to the line of the spec that caused it.
    if (Remark& last = parsed_.remarks.back(); last.where.file == 0)
      last.where = remark.where;
    else
      last.notes.push_back(std::move(remark));
  } else if (level >= clang::DiagnosticsEngine::Error) {
    parsed_.remarks.push_back(std::move(remark));
  }
}

std::vector<Edit> Remarks::find_fix(const clang::Diagnostic& info) const {
  std::vector<Edit> fix;
  for (const clang::FixItHint& hint : info.getFixItHints()) {
    const auto& manager = info.getSourceManager();
    const auto range = clang::Lexer::makeFileCharRange(hint.RemoveRange, manager, language_of_specs());
    if (range.isInvalid() || hint.InsertFromRange.isValid()) return {};
    const auto [file, begin] = manager.getDecomposedLoc(range.getBegin());
    const uint32_t index = parsed_.index_of(file);
    if (index == 0 || parsed_.sources[index].absolute.empty()) return {};
    fix.push_back({{index, begin, manager.getFileOffset(range.getEnd())}, hint.CodeToInsert});
  }
  return fix;
}

std::unique_ptr<clang::CompilerInstance> make_compiler(const ParseOptions& options, bool header, Remarks& remarks) {
  const std::string root = "-I" + (header ? options.shipped : options.root), shipped = "-I" + options.shipped;
  const std::string torch = options.torch + "/include", api = torch + "/torch/csrc/api/include";
  const std::vector<const char*> arguments = {"clang++",
                                              "-fsyntax-only",
                                              "-w",
                                              header ? "-xc++-header" : "-xc++",
                                              "-std=c++20",
                                              "-resource-dir",
                                              options.clang_resources.c_str(),
                                              root.c_str(),
                                              shipped.c_str(),
                                              "-isystem",
                                              torch.c_str(),
                                              "-isystem",
                                              api.c_str(),
                                              header ? "prelude.h" : "specs.cc"};
  auto compiler = std::make_unique<clang::CompilerInstance>();
  compiler->createDiagnostics(&remarks, /*ShouldOwnClient=*/false);
  clang::CreateInvocationOptions invocation_options;
  invocation_options.Diags = &compiler->getDiagnostics();
  auto invocation = clang::createInvocation(arguments, invocation_options);
  if (!invocation) throw std::runtime_error("Clang does not accept modgen's flags: check its resource directory");
  compiler->setInvocation(std::move(invocation));
  compiler->createFileManager(files_with_unix_lines());
  compiler->getDiagnosticOpts().ErrorLimit = 0;
  compiler->getDiagnostics().setErrorLimit(0);
  compiler->getDiagnosticOpts().ShowCarets = false;  // nor the error count at the end
  compiler->getFrontendOpts().DisableFree = true;
  compiler->getFrontendOpts().Inputs.clear();
  return compiler;
}

}  // namespace modgen
