#include "generator/parse/parse.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/Support/CrashRecoveryContext.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "generator/parse/compiler.h"
#include "generator/parse/nesting.h"
#include "generator/parse/prelude.h"
#include "generator/parse/project_files.h"

namespace modgen {
namespace {

// Namespaces after each spec and after the flattened texts.
constexpr char kSpecEnd[] = "modgen_spec_end";
constexpr char kFlattenedEnd[] = "modgen_flattened_end";

std::string numbered(const char* folder, size_t index) { return folder + std::to_string(index) + ".h"; }

/// A namespace. When the parser reports it, the parser has read at most one token beyond it.
std::string marker(const char* name) { return std::string("namespace ") + name + " {}\n;\n"; }

/// Calls flatten after the last spec to be read, stores its texts where the include after that spec finds them, and
/// ends the parse after the texts.
class Consumer : public clang::ASTConsumer {
 public:
  Consumer(clang::CompilerInstance& compiler, Parsed& parsed, const ParseSteps& steps, size_t specs,
           ProjectFiles& project)
      : compiler_(compiler), parsed_(parsed), steps_(steps), specs_(specs), project_(project) {
    for (size_t spec = 0; spec < specs; ++spec) set_file(kNextFolder, spec, "");
  }

  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    for (clang::Decl* decl : group) {
      parsed_.top_level.push_back(decl);
      const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl);
      if (!space) continue;
      if (space->getName() == kSpecEnd) {
        on_spec_end();
      } else if (space->getName() == kFlattenedEnd) {
        finish();
        return false;
      }
    }
    return true;
  }

  void HandleInterestingDecl(clang::DeclGroupRef) override {}  // declarations of the prelude, as they are deserialized

  // If a brace is missing, the parser never reaches the last marker.
  void HandleTranslationUnit(clang::ASTContext&) override { project_.resolve_inclusions(); }

 private:
  void on_spec_end() {
    const size_t spec = read_++;
    if (compiler_.getDiagnostics().hasErrorOccurred()) return;
    project_.resolve_inclusions();
    if (read_ < specs_ && !(steps_.stops_at && steps_.stops_at(compiler_, parsed_, read_))) return;
    const std::vector<std::string> texts = steps_.flatten(compiler_, parsed_);
    if (texts.empty()) return;
    std::string next;
    for (size_t index = 0; index < texts.size(); ++index)
      next.append("#include \"").append(set_file(kFlattenedFolder, index, texts[index])).append("\"\n");
    set_file(kNextFolder, spec, next + marker(kFlattenedEnd));
  }

  void finish() {
    project_.resolve_inclusions();
    if (compiler_.getDiagnostics().hasErrorOccurred()) return;
    std::vector<uint32_t> files;
    for (uint32_t index = 1; index < parsed_.sources.size(); ++index)
      if (parsed_.sources[index].absolute.empty()) files.push_back(index);
    steps_.finish(compiler_, parsed_, files);
  }

  /// Returns the name of the file.
  std::string set_file(const char* folder, size_t index, const std::string& text) {
    const std::string name = numbered(folder, index);
    const auto entry = compiler_.getFileManager().getVirtualFileRef(name, static_cast<off_t>(text.size()), 0);
    compiler_.getSourceManager().overrideFileContents(entry, llvm::MemoryBuffer::getMemBufferCopy(text));
    return name;
  }

  clang::CompilerInstance& compiler_;
  Parsed& parsed_;
  const ParseSteps& steps_;
  size_t specs_, read_ = 0;
  ProjectFiles& project_;
};

class SpecAction : public clang::ASTFrontendAction {
 public:
  SpecAction(const ParseOptions& options, Parsed& parsed, const ParseSteps& steps, size_t files)
      : options_(options), parsed_(parsed), steps_(steps), files_(files) {}

  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }

  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    auto project = std::make_unique<ProjectFiles>(options_, true, compiler, parsed_);
    auto consumer = std::make_unique<Consumer>(compiler, parsed_, steps_, files_, *project);
    compiler.getPreprocessor().addPPCallbacks(std::move(project));
    compiler.getPreprocessor().setTokenWatcher([this, &compiler](const clang::Token& token) {
      if (nesting_.add(token.getKind()) > Nesting::kMost) reject_nesting(compiler.getSourceManager(), token);
    });
    return consumer;
  }

 private:
  /// Ends the parse, unless the token is in a library's header.
  void reject_nesting(const clang::SourceManager& manager, const clang::Token& token) {
    const SourceSpan where = parsed_.token(manager, token.getLocation());
    if (where.file == 0) return;
    parsed_.remarks.push_back({Diagnostic::Severity::error,
                               where,
                               "this code nests too deeply: " + std::to_string(Nesting::kMost) +
                                   " tokens precede it in statements that have not ended",
                               "split it into several statements",
                               {}});
    auto* recovery = llvm::CrashRecoveryContext::GetCurrent();
    recovery->DumpStackAndCleanupOnFailure = false;  // this is not a crash
    recovery->HandleExit(1);
  }

  const ParseOptions& options_;
  Parsed& parsed_;
  const ParseSteps& steps_;
  size_t files_;
  Nesting nesting_;
};

}  // namespace

Parsed parse(const ParseOptions& options, const std::vector<std::string>& spec_paths, const ParseSteps& steps) {
  allow_deep_stack();
  Parsed parsed;
  const std::string prelude = precompiled_prelude(options, parsed);
  std::string text;
  for (size_t index = 0; index < spec_paths.size(); ++index) {
    text.append("#include \"").append(spec_paths[index]).append("\"\n").append(marker(kSpecEnd));
    text.append("#include \"").append(numbered(kNextFolder, index)).append("\"\n");
  }

  Remarks remarks(parsed);
  auto compiler = make_compiler(options, /*header=*/false, remarks);
  const auto buffer = llvm::MemoryBuffer::getMemBuffer(text, "<specs>");
  compiler->getFrontendOpts().Inputs.emplace_back(buffer->getMemBufferRef(), clang::InputKind(clang::Language::CXX));
  compiler->getPreprocessorOpts().ImplicitPCHInclude = prelude;
  compiler->getPreprocessorOpts().DisablePCHOrModuleValidation = clang::DisableValidationForModuleKind::PCH;
  SpecAction action(options, parsed, steps, spec_paths.size());
  // Clang itself may crash on text that is not C++, and is stopped when text nests too deeply. Diagnostics up to that
  // point are reported.
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  recovery.DumpStackAndCleanupOnFailure = true;  // if the program enabled stack traces
  if (!recovery.RunSafely([&] { compiler->ExecuteAction(action); })) {
    if (!parsed.has_errors()) throw std::runtime_error("Clang crashed while reading " + text);
    compiler.release();  // NOLINT: its state does not allow destruction
  }
  llvm::CrashRecoveryContext::Disable();
  std::sort(parsed.absent.begin(), parsed.absent.end());
  parsed.absent.erase(std::unique(parsed.absent.begin(), parsed.absent.end()), parsed.absent.end());
  // A file that exists is not an absent candidate: another include may have found it through another folder.
  std::erase_if(parsed.absent, [](const Parsed::Absent& absent) {
    std::error_code unreadable;
    return std::filesystem::is_regular_file(absent.path, unreadable);
  });
  return parsed;
}

}  // namespace modgen
