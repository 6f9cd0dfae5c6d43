#include "generator/parse/compiler.h"

#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/Utils.h>
#include <clang/Lex/Lexer.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/VirtualFileSystem.h>

#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "generator/source/families.h"
#include "generator/source/files.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

class ConvertedFile : public llvm::vfs::File {
 public:
  ConvertedFile(llvm::vfs::Status status, const std::string& text) : status_(std::move(status)), text_(text) {}

  llvm::ErrorOr<llvm::vfs::Status> status() override { return status_; }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> getBuffer(const llvm::Twine& name, int64_t, bool, bool) override {
    return llvm::MemoryBuffer::getMemBufferCopy(text_, name);
  }
  std::error_code close() override { return {}; }

 private:
  llvm::vfs::Status status_;
  const std::string& text_;
};

/// The real file system with Unix line endings in every text. Anything that is neither a file nor a directory, such as
/// a pipe without a writer, does not exist.
class UnixLines : public llvm::vfs::ProxyFileSystem {
 public:
  UnixLines() : ProxyFileSystem(llvm::vfs::getRealFileSystem()) {}

  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine& path) override {
    auto status = ProxyFileSystem::status(path);
    if (!status || status->isDirectory()) return status;
    if (!status->isRegularFile()) return std::make_error_code(std::errc::no_such_file_or_directory);
    const std::string* text = converted(path.str());
    return text ? llvm::vfs::Status::copyWithNewSize(*status, text->size()) : status;
  }

  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine& path) override {
    const auto found = status(path);
    if (!found) return found.getError();
    const std::string* text = found->isRegularFile() ? converted(path.str()) : nullptr;
    if (!text) return ProxyFileSystem::openFileForRead(path);
    return std::unique_ptr<llvm::vfs::File>(std::make_unique<ConvertedFile>(*found, *text));
  }

 private:
  /// The file's text with Unix line endings; null if it already has them.
  const std::string* converted(const std::string& path) {
    if (llvm::StringRef(path).ends_with(".pch")) return nullptr;
    const auto [known, is_new] = converted_.try_emplace(path);
    if (is_new)
      if (const auto buffer = llvm::MemoryBuffer::getFile(path); buffer && (*buffer)->getBuffer().contains('\r'))
        known->second = std::make_unique<const std::string>(with_unix_lines((*buffer)->getBuffer()));
    return known->second.get();
  }

  std::map<std::string, std::unique_ptr<const std::string>> converted_;
};

}  // namespace

void Remarks::HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) {
  clang::DiagnosticConsumer::HandleDiagnostic(level, info);
  llvm::SmallString<256> message;
  info.FormatDiagnostic(message);
  Remark remark{Diagnostic::Severity::error, {}, message.str().str(), "", {}};
  if (info.hasSourceManager() && info.getLocation().isValid()) {
    remark.where = parsed_.token(info.getSourceManager(), info.getLocation());
    if (remark.where.file == 0) remark.where = end_of_spec_before(info.getSourceManager(), info.getLocation());
  }
  if (level >= clang::DiagnosticsEngine::Error) remark.fix = find_fix(info);
  if (level == clang::DiagnosticsEngine::Note) {
    remark.severity = Diagnostic::Severity::note;
    if (parsed_.remarks.empty()) return;
    if (remark.where.file == 0) return parsed_.remarks.back().reasons.push_back(std::move(remark.message));
    // An error in a library's header belongs to the line of the spec that caused it.
    if (Remark& last = parsed_.remarks.back(); last.where.file == 0)
      last.where = remark.where;
    else
      last.notes.push_back(std::move(remark));
  } else if (level >= clang::DiagnosticsEngine::Error) {
    parsed_.remarks.push_back(std::move(remark));
  }
}

SourceSpan Remarks::end_of_spec_before(const clang::SourceManager& manager, clang::SourceLocation location) const {
  const auto [file, offset] = manager.getDecomposedLoc(manager.getFileLoc(location));
  if (file != manager.getMainFileID()) return {};
  const llvm::StringRef before = manager.getBufferData(file).substr(0, offset);
  SourceSpan end;
  size_t last = 0;
  for (uint32_t index = 1; index < parsed_.sources.size(); ++index) {
    const SourceFile& source = parsed_.sources[index];
    const size_t at =
        before.rfind("#include \"" + spec_name(std::filesystem::path(source.path).stem().string()) + "\"");
    if (source.absolute.empty() || at == llvm::StringRef::npos || (end.file != 0 && at < last)) continue;
    last = at;
    const auto size = static_cast<uint32_t>(source.text.find_last_not_of(" \n") + 1);
    end = {index, size, size};
  }
  return end;
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
  compiler->createFileManager(llvm::makeIntrusiveRefCnt<UnixLines>());
  compiler->getDiagnosticOpts().ErrorLimit = 0;
  compiler->getDiagnostics().setErrorLimit(0);
  compiler->getDiagnosticOpts().ShowCarets = false;  // nor the error count at the end
  compiler->getFrontendOpts().DisableFree = true;
  compiler->getFrontendOpts().Inputs.clear();
  return compiler;
}

}  // namespace modgen
