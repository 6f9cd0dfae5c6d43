#include "generator/parse/session.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/AST/ExternalASTSource.h>
#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Basic/Stack.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Parse/Parser.h>
#include <clang/Sema/EnterExpressionEvaluationContext.h>
#include <clang/Sema/Sema.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "generator/parse/project_files.h"

namespace modgen {
namespace {

// Namespaces after each spec and after the flattened texts. When the parser reports one, it has read at most one token
// beyond it, so the include that follows has not been opened.
constexpr char kSpecEnd[] = "modgen_spec_end";
constexpr char kFlattenedEnd[] = "modgen_flattened_end";

std::string numbered(const char* folder, size_t index) { return folder + std::to_string(index) + ".h"; }

std::string marker(const char* name) { return std::string("namespace ") + name + " {}\n;\n"; }

/// Counts open tokens: those after the last statement or declaration of each enclosing bracket or brace, without tokens
/// in closed ones. The syntax tree is never deeper than this count. Clang and the later stages recurse into code, and
/// the stack is finite: text that would overflow it is rejected first.
class Nesting {
 public:
  /// Many times the depth that models need.
  static constexpr size_t kMost = 4000;

  /// Consumes the next token and returns the number of open tokens.
  size_t add(clang::tok::TokenKind kind) {
    // `{…}` before a word ends a statement or declaration, such as a function.
    if (std::exchange(is_after_brace_, kind == clang::tok::r_brace) && begins(kind)) end();
    switch (kind) {
      case clang::tok::l_paren:
      case clang::tok::l_square:
      case clang::tok::l_brace:
        around_.push_back(open_++);
        break;
      case clang::tok::r_paren:
      case clang::tok::r_square:
      case clang::tok::r_brace:
        if (!around_.empty()) {
          open_ = around_.back() + 2;  // including both brackets
          around_.pop_back();
        }
        break;
      case clang::tok::semi:
        end();
        break;
      default:
        ++open_;
    }
    return open_;
  }

 private:
  /// Whether a token after a closing brace begins a statement or declaration.
  static bool begins(clang::tok::TokenKind kind) {
    const bool is_word = clang::tok::isAnyIdentifier(kind) || clang::tok::getKeywordSpelling(kind);
    return is_word && kind != clang::tok::kw_else && kind != clang::tok::kw_while && kind != clang::tok::kw_catch;
  }
  void end() { open_ = around_.empty() ? 0 : around_.back() + 1; }

  bool is_after_brace_ = false;
  size_t open_ = 0;
  std::vector<size_t> around_;  // open tokens before each unclosed bracket and brace
};

/// Raises the stack limit to what Nesting::kMost open tokens need. Costs nothing if the stack is not used.
void allow_deep_stack() {
  // Linux reserves this much below the main thread's stack, regardless of the limit at program start.
  constexpr rlim_t kBytes = 100 << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kBytes) return;
  limit.rlim_cur = std::min(kBytes, limit.rlim_max);
  setrlimit(RLIMIT_STACK, &limit);
}

/// Collects the declarations at file scope.
class Collector : public clang::ASTConsumer {
 public:
  explicit Collector(Parsed& parsed) : parsed_(parsed) {}

  bool HandleTopLevelDecl(clang::DeclGroupRef group) override {
    parsed_.top_level.insert(parsed_.top_level.end(), group.begin(), group.end());
    return true;
  }
  void HandleInterestingDecl(clang::DeclGroupRef) override {}  // declarations of the prelude, as they are deserialized

 private:
  Parsed& parsed_;
};

bool has_namespace(clang::DeclGroupRef group, llvm::StringRef name) {
  return std::any_of(group.begin(), group.end(), [&](const clang::Decl* decl) {
    const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl);
    return space && space->getName() == name;
  });
}

}  // namespace

/// Sets up the preprocessor.
class Session::Action : public clang::ASTFrontendAction {
 public:
  explicit Action(Session& session) : session_(session) {}

  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }

  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    auto project = std::make_unique<ProjectFiles>(session_.options_, true, compiler, session_.parsed_);
    project_ = project.get();
    compiler.getPreprocessor().addPPCallbacks(std::move(project));
    compiler.getPreprocessor().setTokenWatcher([this, &compiler](const clang::Token& token) {
      if (nesting_.add(token.getKind()) > Nesting::kMost) reject_nesting(compiler.getSourceManager(), token);
    });
    return std::make_unique<Collector>(session_.parsed_);
  }

  void resolve_inclusions() { project_->resolve_inclusions(); }

 private:
  /// Ends the parse, unless the token is in a library's header.
  void reject_nesting(const clang::SourceManager& manager, const clang::Token& token) {
    const SourceSpan where = session_.parsed_.token(manager, token.getLocation());
    if (where.file == 0) return;
    session_.parsed_.remarks.push_back({Diagnostic::Severity::error,
                                        where,
                                        "this code nests too deeply: " + std::to_string(Nesting::kMost) +
                                            " tokens precede it in statements that have not ended",
                                        "split it into several statements",
                                        {}});
    auto* recovery = llvm::CrashRecoveryContext::GetCurrent();
    recovery->DumpStackAndCleanupOnFailure = false;  // this is not a crash
    recovery->HandleExit(1);
  }

  Session& session_;
  ProjectFiles* project_ = nullptr;  // owned by the preprocessor
  Nesting nesting_;
};

/// Clang's parser of the translation unit, which stops at markers: clang::ParseAST in pieces.
class Session::Reader {
 public:
  explicit Reader(clang::CompilerInstance& compiler)
      : consumer_(compiler.getASTConsumer()),
        context_(compiler.getASTContext()),
        parser_(compiler.getPreprocessor(), compiler.getSema(), /*SkipFunctionBodies=*/false) {
    compiler.getPreprocessor().EnterMainSourceFile();
    if (clang::ExternalASTSource* prelude = context_.getExternalSource()) prelude->StartTranslationUnit(&consumer_);
    parser_.Initialize();
    evaluation_.emplace(compiler.getSema(), clang::Sema::ExpressionEvaluationContext::PotentiallyEvaluated);
  }

  /// Parses declarations up to the namespace `end`. False if the text ends before it.
  bool read_to(llvm::StringRef end) {
    while (!at_end_) {
      clang::Parser::DeclGroupPtrTy group;
      at_end_ = std::exchange(is_first_, false) ? parser_.ParseFirstTopLevelDecl(group, imports_)
                                                : parser_.ParseTopLevelDecl(group, imports_);
      if (at_end_ || !group) continue;
      consumer_.HandleTopLevelDecl(group.get());
      if (has_namespace(group.get(), end)) return true;
    }
    return false;
  }

 private:
  clang::ASTConsumer& consumer_;
  clang::ASTContext& context_;
  clang::Parser parser_;
  std::optional<clang::EnterExpressionEvaluationContext> evaluation_;
  clang::Sema::ModuleImportState imports_ = clang::Sema::ModuleImportState::NotACXX20Module;
  bool is_first_ = true, at_end_ = false;
};

Session::Session(const ParseOptions& options, std::vector<std::string> spec_paths)
    : options_(options), spec_paths_(std::move(spec_paths)), remarks_(parsed_) {
  allow_deep_stack();
  clang::noteBottomOfStack();
  const std::string prelude = precompiled_prelude(options_, parsed_);
  std::string text;
  for (size_t index = 0; index < spec_paths_.size(); ++index) {
    text.append("#include \"").append(spec_paths_[index]).append("\"\n").append(marker(kSpecEnd));
    text.append("#include \"").append(numbered(kNextFolder, index)).append("\"\n");
  }
  compiler_ = make_compiler(options_, /*header=*/false, remarks_);
  compiler_->getPreprocessorOpts().ImplicitPCHInclude = prelude;
  compiler_->getPreprocessorOpts().DisablePCHOrModuleValidation = clang::DisableValidationForModuleKind::PCH;
  action_ = std::make_unique<Action>(*this);
  text_ = llvm::MemoryBuffer::getMemBufferCopy(text, "<specs>");
  const clang::FrontendInputFile input(text_->getMemBufferRef(), clang::InputKind(clang::Language::CXX));
  is_open_ = compiler_->createTarget() && action_->BeginSourceFile(*compiler_, input);
  if (!is_open_) return;
  compiler_->createSema(clang::TU_Prefix, /*CompletionConsumer=*/nullptr);
  for (size_t spec = 0; spec < spec_paths_.size(); ++spec) set_file(kNextFolder, spec, "");
}

Session::~Session() {
  if (crashed_) {  // Clang's state does not allow destruction
    (void)reader_.release();
    (void)action_.release();
    (void)compiler_.release();
    return;
  }
  reader_.reset();
  if (is_open_) action_->EndSourceFile();
}

bool Session::read_spec() {
  if (!is_open_ || crashed_ || !has_next_spec()) return false;
  bool found = false;
  read_safely([&] {
    if (!reader_) reader_ = std::make_unique<Reader>(*compiler_);
    found = reader_->read_to(kSpecEnd);
    ++specs_read_;
    if (has_errors()) reader_->read_to("");
    action_->resolve_inclusions();
  });
  return found && !crashed_ && !has_errors();
}

std::vector<uint32_t> Session::read_flattened(const std::vector<std::string>& texts) {
  std::string next;
  for (size_t index = 0; index < texts.size(); ++index)
    next.append("#include \"").append(set_file(kFlattenedFolder, index, texts[index])).append("\"\n");
  set_file(kNextFolder, specs_read_ - 1, next + marker(kFlattenedEnd));
  read_safely([&] {
    reader_->read_to(kFlattenedEnd);  // if a brace is missing, the text ends before the marker
    action_->resolve_inclusions();
  });
  std::vector<uint32_t> files;
  for (uint32_t index = 1; index < parsed_.sources.size(); ++index)
    if (parsed_.sources[index].absolute.empty()) files.push_back(index);
  return files;
}

void Session::read_safely(llvm::function_ref<void()> read) {
  // Clang itself may crash on text that is not C++, and is stopped when text nests too deeply. Diagnostics up to that
  // point are reported.
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  recovery.DumpStackAndCleanupOnFailure = true;  // if the program enabled stack traces
  crashed_ = !recovery.RunSafely(read);
  llvm::CrashRecoveryContext::Disable();
  if (!crashed_ || parsed_.has_errors()) return;
  std::string paths;
  for (const std::string& path : spec_paths_) paths += " " + path;
  throw std::runtime_error("Clang crashed while reading" + paths);
}

std::string Session::set_file(const char* folder, size_t index, const std::string& text) {
  const std::string name = numbered(folder, index);
  const auto entry = compiler_->getFileManager().getVirtualFileRef(name, static_cast<off_t>(text.size()), 0);
  compiler_->getSourceManager().overrideFileContents(entry, llvm::MemoryBuffer::getMemBufferCopy(text));
  return name;
}

bool Session::has_errors() const { return compiler_->getDiagnostics().hasErrorOccurred(); }

}  // namespace modgen
