#include "generator/parse.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/Decl.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Basic/Version.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Frontend/Utils.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/SHA256.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "generator/abridged.h"
#include "generator/nesting.h"

namespace fs = std::filesystem;

namespace modgen {

// ---- The table of files ---------------------------------------------------------------------------------------------

uint32_t SourceTable::add(SourceFile file) {
  files_.push_back(std::move(file));
  return static_cast<uint32_t>(files_.size() - 1);
}

uint32_t SourceTable::find(const std::string& absolute) const {
  for (uint32_t index = 1; index < files_.size(); ++index)
    if (files_[index].absolute == absolute) return index;
  return 0;
}

std::string_view SourceTable::text(SourceSpan span) const {
  return std::string_view(files_[span.file].text).substr(span.begin, span.end - span.begin);
}

Location SourceTable::locate(SourceSpan span) const {
  Location result;
  if (span.file == 0) return result;
  const SourceFile& file = files_[span.file];
  const size_t offset = std::min<size_t>(span.begin, file.text.size());
  const size_t line_begin = offset == 0 ? 0 : file.text.rfind('\n', offset - 1) + 1;
  const size_t line_end = std::min(file.text.find('\n', offset), file.text.size());
  result.path = file.path;
  result.line =
      1 + static_cast<uint32_t>(std::count(file.text.begin(), file.text.begin() + static_cast<long>(line_begin), '\n'));
  result.column = static_cast<uint32_t>(offset - line_begin) + 1;
  result.source_line = file.text.substr(line_begin, line_end - line_begin);
  return result;
}

// ---- Positions ------------------------------------------------------------------------------------------------------

uint32_t Parsed::index_of(clang::FileID file) const {
  const auto found = file_ids.find(file.getHashValue());
  return found == file_ids.end() ? 0 : found->second;
}

SourceSpan Parsed::token(const clang::SourceManager& manager, clang::SourceLocation location) const {
  if (location.isInvalid()) return {};
  const auto [file, offset] = manager.getDecomposedLoc(manager.getFileLoc(location));
  const uint32_t index = index_of(file);
  if (index == 0) return {};
  clang::LangOptions options;
  options.CPlusPlus = options.CPlusPlus20 = options.Bool = true;
  const unsigned length = clang::Lexer::MeasureTokenLength(manager.getFileLoc(location), manager, options);
  return {index, offset, offset + length};
}

SourceSpan Parsed::span(const clang::SourceManager& manager, clang::SourceRange range) const {
  const auto first = manager.getExpansionRange(range.getBegin()).getBegin();
  const auto last = manager.getExpansionRange(range.getEnd()).getEnd();
  SourceSpan begin = token(manager, first), end = token(manager, last);
  // Both ends in the arguments of one macro: the range that was written there.
  if (range.getBegin().isMacroID() && range.getEnd().isMacroID() && manager.isMacroArgExpansion(range.getBegin()) &&
      manager.isMacroArgExpansion(range.getEnd())) {
    begin = token(manager, range.getBegin());
    end = token(manager, range.getEnd());
  }
  return {begin.file, begin.begin, end.end};
}

namespace {

// Namespaces behind each spec and behind the flattened texts.
constexpr char kSpecEnd[] = "modgen_spec_end";
constexpr char kFlattenedEnd[] = "modgen_flattened_end";
constexpr char kFlattenedFolder[] = "/modgen-flattened/";
// What follows a spec: nothing, or includes of the flattened texts.
constexpr char kNextFolder[] = "/modgen-next/";
constexpr char kPrelude[] = "/modgen-prelude.h";

std::string numbered(const char* folder, size_t index) { return folder + std::to_string(index) + ".h"; }

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

bool lies_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 && path[folder.size()] == '/';
}

std::string shown_path(const ParseOptions& options, const std::string& absolute) {
  return lies_below(absolute, options.root) ? absolute.substr(options.root.size() + 1) : absolute;
}

/// Records what the preprocessor reads of the project: files, includes and where they were looked for, macros.
class ProjectFiles : public clang::PPCallbacks {
 public:
  ProjectFiles(const ParseOptions& options, bool root_is_searched, clang::CompilerInstance& compiler, Parsed& parsed)
      : options_(options), root_is_searched_(root_is_searched), compiler_(compiler), parsed_(parsed) {}

  void FileChanged(clang::SourceLocation location, FileChangeReason reason, clang::SrcMgr::CharacteristicKind kind,
                   clang::FileID) override {
    if (reason != EnterFile || clang::SrcMgr::isSystem(kind)) return;
    const auto& manager = compiler_.getSourceManager();
    const clang::FileID file = manager.getFileID(location);
    const auto entry = manager.getFileEntryRefForID(file);
    if (!entry) return;
    const std::string name = entry->getName().str();
    if (name == kPrelude || name.rfind(kNextFolder, 0) == 0) return;
    const bool flattened = name.rfind(kFlattenedFolder, 0) == 0;
    const std::string absolute = flattened ? name : fs::path(name).lexically_normal().string();
    SourceFile source{flattened ? name : shown_path(options_, absolute), flattened ? "" : absolute,
                      manager.getBufferData(file).str()};
    parsed_.file_ids[file.getHashValue()] = parsed_.sources.add(std::move(source));
  }

  void InclusionDirective(clang::SourceLocation hash, const clang::Token&, llvm::StringRef name, bool angled,
                          clang::CharSourceRange, clang::OptionalFileEntryRef found, llvm::StringRef, llvm::StringRef,
                          const clang::Module*, bool, clang::SrcMgr::CharacteristicKind kind) override {
    const auto& manager = compiler_.getSourceManager();
    const auto [file, offset] = manager.getDecomposedLoc(hash);
    const uint32_t index = parsed_.index_of(file);
    if (index == 0) return;
    const std::string target = found ? fs::path(found->getName().str()).lexically_normal().string() : "";
    Inclusion inclusion{index, offset, angled ? "<" + name.str() + ">" : "\"" + name.str() + "\"", 0};
    pending_.push_back({parsed_.inclusions.size(), target});
    parsed_.inclusions.push_back(inclusion);
    std::vector<fs::path> folders;
    const std::string& includer = parsed_.sources[index].absolute;
    if (includer.empty()) return;  // flattened
    if (!angled) folders.push_back(fs::path(includer).parent_path());
    if (root_is_searched_) folders.push_back(options_.root);
    if (options_.shipped != options_.root || !root_is_searched_) folders.push_back(options_.shipped);
    for (const fs::path& folder : folders) {
      const std::string candidate = (folder / name.str()).lexically_normal().string();
      if (candidate == target) break;
      parsed_.absent.push_back({index, candidate});
    }
    (void)kind;
  }

  void MacroDefined(const clang::Token& name, const clang::MacroDirective* directive) override {
    const auto& manager = compiler_.getSourceManager();
    const SourceSpan where = parsed_.token(manager, name.getLocation());
    if (where.file == 0) return;
    const SourceSpan end = parsed_.token(manager, directive->getMacroInfo()->getDefinitionEndLoc());
    definitions_[directive->getMacroInfo()] = parsed_.macros.size();
    parsed_.macros.push_back({name.getIdentifierInfo()->getName().str(),
                              where,
                              {where.file, where.begin, std::max(where.end, end.end)},
                              false});
  }
  void MacroUndefined(const clang::Token& name, const clang::MacroDefinition&, const clang::MacroDirective*) override {
    const SourceSpan where = parsed_.token(compiler_.getSourceManager(), name.getLocation());
    if (where.file != 0) parsed_.undefs.push_back(where);
    for (modgen::MacroDefinition& macro : parsed_.macros)
      if (macro.name == name.getIdentifierInfo()->getName() && macro.where.file == where.file) macro.undefined = true;
  }
  void MacroExpands(const clang::Token& name, const clang::MacroDefinition& definition, clang::SourceRange,
                    const clang::MacroArgs*) override {
    const auto found = definitions_.find(definition.getMacroInfo());
    if (found == definitions_.end()) return;
    const SourceSpan where = parsed_.token(compiler_.getSourceManager(), name.getLocation());
    if (where.file != 0) parsed_.macro_uses.push_back({where, found->second});
  }

  void If(clang::SourceLocation at, clang::SourceRange, ConditionValueKind) override { open(at); }
  void Ifdef(clang::SourceLocation at, const clang::Token&, const clang::MacroDefinition&) override { open(at); }
  void Ifndef(clang::SourceLocation at, const clang::Token&, const clang::MacroDefinition&) override { open(at); }
  void Endif(clang::SourceLocation at, clang::SourceLocation) override {
    const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
    if (where.file == 0 || --depth_[where.file] > 0) return;
    for (Condition& condition : parsed_.conditions)
      if (condition.where.file == where.file && !condition.closed)
        condition = {{where.file, condition.where.begin, where.end}, true};
  }

  void resolve_inclusions() {
    for (const auto& [index, target] : pending_) parsed_.inclusions[index].target = parsed_.sources.find(target);
    pending_.clear();
  }

 private:
  void open(clang::SourceLocation at) {
    const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
    if (where.file != 0 && depth_[where.file]++ == 0) parsed_.conditions.push_back({where, false});
  }

  const ParseOptions& options_;
  bool root_is_searched_;
  clang::CompilerInstance& compiler_;
  Parsed& parsed_;
  std::vector<std::pair<size_t, std::string>> pending_;
  std::map<const clang::MacroInfo*, size_t> definitions_;  // looked up, never walked
  std::map<uint32_t, int> depth_;                          // of conditions, by file
};

/// Keeps what the compiler says, notes with the remark that they belong to.
class Remarks : public clang::DiagnosticConsumer {
 public:
  explicit Remarks(Parsed& parsed) : parsed_(parsed) {}

  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override {
    clang::DiagnosticConsumer::HandleDiagnostic(level, info);
    llvm::SmallString<256> message;
    info.FormatDiagnostic(message);
    Remark remark{Diagnostic::Severity::error, {}, message.str().str(), "", {}};
    if (info.hasSourceManager() && info.getLocation().isValid())
      remark.where = parsed_.token(info.getSourceManager(), info.getLocation());
    if (level >= clang::DiagnosticsEngine::Error) remark.fix = fix_of(info);
    if (level == clang::DiagnosticsEngine::Note) {
      remark.severity = Diagnostic::Severity::note;
      if (remark.where.file == 0 || parsed_.remarks.empty()) return;
      // An error inside of a library's header belongs to the line of the spec that asked for it.
      if (Remark& last = parsed_.remarks.back(); last.where.file == 0)
        last.where = remark.where;
      else
        last.notes.push_back(std::move(remark));
    } else if (level >= clang::DiagnosticsEngine::Error) {
      parsed_.remarks.push_back(std::move(remark));
    }
  }

 private:
  /// Clang's fix-it, where all of it lies in project files.
  std::vector<Edit> fix_of(const clang::Diagnostic& info) const {
    std::vector<Edit> fix;
    clang::LangOptions options;
    options.CPlusPlus = options.CPlusPlus20 = options.Bool = true;
    for (const clang::FixItHint& hint : info.getFixItHints()) {
      const auto& manager = info.getSourceManager();
      const auto range = clang::Lexer::makeFileCharRange(hint.RemoveRange, manager, options);
      if (range.isInvalid() || hint.InsertFromRange.isValid()) return {};
      const auto [file, begin] = manager.getDecomposedLoc(range.getBegin());
      const uint32_t index = parsed_.index_of(file);
      if (index == 0 || parsed_.sources[index].absolute.empty()) return {};
      fix.push_back({{index, begin, manager.getFileOffset(range.getEnd())}, hint.CodeToInsert});
    }
    return fix;
  }

  Parsed& parsed_;
};

std::unique_ptr<clang::CompilerInstance> make_compiler(const ParseOptions& options, bool header, Remarks& remarks) {
  // The prelude is the same for every root.
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
  clang::CreateInvocationOptions how;
  how.Diags = &compiler->getDiagnostics();
  auto invocation = clang::createInvocation(arguments, how);
  if (!invocation) throw std::runtime_error("Clang does not accept modgen's flags: is its resource folder right?");
  compiler->setInvocation(std::move(invocation));
  compiler->getDiagnosticOpts().ErrorLimit = 0;
  compiler->getDiagnostics().setErrorLimit(0);
  compiler->getDiagnosticOpts().ShowCarets = false;  // nor the count at the end
  compiler->getFrontendOpts().DisableFree = true;
  compiler->getFrontendOpts().Inputs.clear();
  return compiler;
}

// ---- The precompiled prelude ----------------------------------------------------------------------------------------

std::string prelude_key(const ParseOptions& options) {
  std::vector<std::string> files = {options.shipped + "/modular/modular.h", options.torch + "/version.py"};
  for (const auto& entry : fs::recursive_directory_iterator(options.shipped + "/runtime/model"))
    if (entry.path().extension() == ".h") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  llvm::SHA256 digest;
  const auto mix = [&](llvm::StringRef text) {
    digest.update(text);
    digest.update(llvm::StringRef("\0", 1));
  };
  for (const std::string& part :
       {clang::getClangFullVersion(), options.shipped, options.torch, options.clang_resources,
        std::string("c++20 -w 4"), std::string(kAbridgedLibrary), std::string(kAbridged), std::string(kUsedByMost)})
    mix(part);
  for (const std::string& file : files) {
    mix(file);
    mix(read_file(file));
  }
  std::string hex;
  for (const uint8_t byte : digest.final()) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex.substr(0, 32);
}

/// Has the bodies of the prelude's own text read. What specs see of libtorch is its declarations: its bodies would only
/// fill the cache.
class OwnBodies : public clang::ASTConsumer {
 public:
  explicit OwnBodies(clang::CompilerInstance& compiler) : compiler_(compiler) {}
  bool shouldSkipFunctionBody(clang::Decl* decl) override {
    return !compiler_.getSourceManager().isInMainFile(decl->getLocation());
  }

 private:
  clang::CompilerInstance& compiler_;
};

class PreludeAction : public clang::GeneratePCHAction {
 public:
  PreludeAction(const ParseOptions& options, Parsed& parsed) : options_(options), parsed_(parsed) {}

 protected:
  bool BeginSourceFileAction(clang::CompilerInstance& compiler) override {
    compiler.getPreprocessor().addPPCallbacks(std::make_unique<ProjectFiles>(options_, false, compiler, parsed_));
    return clang::GeneratePCHAction::BeginSourceFileAction(compiler);
  }

  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler,
                                                        llvm::StringRef file) override {
    std::vector<std::unique_ptr<clang::ASTConsumer>> both;
    both.push_back(clang::GeneratePCHAction::CreateASTConsumer(compiler, file));
    both.push_back(std::make_unique<OwnBodies>(compiler));
    return std::make_unique<clang::MultiplexConsumer>(std::move(both));
  }

 private:
  const ParseOptions& options_;
  Parsed& parsed_;
};

/// Keeps those that were used last: each state of the contract, of torch or of modgen has one of 70 MB.
void remove_old_preludes(const fs::path& cache) {
  constexpr size_t kKept = 8;
  std::vector<std::pair<fs::file_time_type, fs::path>> preludes;
  for (const auto& entry : fs::directory_iterator(cache))
    if (entry.path().filename().string().rfind("prelude-", 0) == 0)
      preludes.emplace_back(entry.last_write_time(), entry.path());
  std::sort(preludes.rbegin(), preludes.rend());
  std::error_code another_process_was_first;
  for (size_t index = kKept; index < preludes.size(); ++index)
    fs::remove_all(preludes[index].second, another_process_was_first);
}

/// The path of the precompiled prelude, built where the cache does not hold it. Beside it stands what it was made of.
std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed) {
  const fs::path folder = fs::path(options.cache) / ("prelude-" + prelude_key(options));
  const std::string path = (folder / "modular.pch").string(), list = (folder / "files").string();
  if (!fs::exists(path) || !fs::exists(list)) {
    fs::create_directories(folder);
    Parsed made;
    Remarks remarks(made);
    auto compiler = make_compiler(options, /*header=*/true, remarks);
    compiler->getFrontendOpts().Inputs.emplace_back(
        kPrelude, clang::InputKind(clang::Language::CXX, clang::InputKind::Source, false,
                                   clang::InputKind::HeaderUnit_None, true));
    std::string text(kAbridgedLibrary);
    text.append("#include \"modular/modular.h\"\n").append(kAbridged).append(kUsedByMost);
    compiler->getPreprocessorOpts().addRemappedFile(kPrelude, llvm::MemoryBuffer::getMemBufferCopy(text).release());
    compiler->getFrontendOpts().OutputFile = path;
    compiler->getFrontendOpts().SkipFunctionBodies = true;
    compiler->getFrontendOpts().IncludeTimestamps = false;
    PreludeAction action(options, made);
    if (!compiler->ExecuteAction(action) || !made.remarks.empty()) {
      const std::string why = made.remarks.empty() ? "Clang failed" : made.remarks.front().message;
      const Location where = made.remarks.empty() ? Location{} : made.sources.locate(made.remarks.front().where);
      fs::remove(path);
      throw std::runtime_error("cannot compile the prelude modular/modular.h: " + why +
                               (where.line ? " (" + where.path + ":" + std::to_string(where.line) + ")" : "") +
                               "; is " + options.torch + " torch 2.11.0?");
    }
    const std::string temporary = list + "." + std::to_string(getpid());
    std::ofstream out(temporary, std::ios::binary);
    for (uint32_t index = 1; index < made.sources.size(); ++index)
      out << "read " << made.sources[index].absolute << "\n";
    for (const Parsed::Absent& absent : made.absent) out << "absent " << absent.path << "\n";
    out.close();
    if (!out) throw std::runtime_error("cannot write " + temporary);
    fs::rename(temporary, list);
    remove_old_preludes(options.cache);
  }
  std::error_code of_another_user;
  fs::last_write_time(folder, fs::file_time_type::clock::now(), of_another_user);
  std::istringstream lines(read_file(list));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("read ", 0) == 0) parsed.prelude.push_back(line.substr(5));
    if (line.rfind("absent ", 0) == 0) parsed.absent.push_back({0, line.substr(7)});
  }
  return path;
}

// ---- The translation unit -------------------------------------------------------------------------------------------

/// A namespace that the parser has read when it tells of it, and nothing behind it but one token.
std::string marker(const char* name) { return std::string("namespace ") + name + " {}\n;\n"; }

/// Calls flatten when the last spec that is to be read was, puts its texts where the include behind that spec will find
/// them, and ends the parse behind the texts.
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
        spec_was_read();
      } else if (space->getName() == kFlattenedEnd) {
        finish();
        return false;
      }
    }
    return true;
  }

  void HandleInterestingDecl(clang::DeclGroupRef) override {}  // the prelude's own, as the reader meets them

  // Where a brace is missing the last marker is never seen.
  void HandleTranslationUnit(clang::ASTContext&) override { project_.resolve_inclusions(); }

 private:
  void spec_was_read() {
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

  /// The name of the file.
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
      if (nesting_.add(token.getKind()) > Nesting::kMost) refuse_nesting(compiler.getSourceManager(), token);
    });
    return consumer;
  }

 private:
  /// Ends the parse, unless a library's header is at fault.
  void refuse_nesting(const clang::SourceManager& manager, const clang::Token& token) {
    const SourceSpan where = parsed_.token(manager, token.getLocation());
    if (where.file == 0) return;
    parsed_.remarks.push_back({Diagnostic::Severity::error,
                               where,
                               "this code nests too deeply: " + std::to_string(Nesting::kMost) +
                                   " tokens stand before it without the end of their statements",
                               "divide it into several statements",
                               {}});
    auto* recovery = llvm::CrashRecoveryContext::GetCurrent();
    recovery->DumpStackAndCleanupOnFailure = false;  // nothing has crashed
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
  // Clang itself may fall over text that is no C++, and is left where text nests too deeply. What was said until then
  // is what there is to say.
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  recovery.DumpStackAndCleanupOnFailure = true;  // where the program has asked for stacks
  if (!recovery.RunSafely([&] { compiler->ExecuteAction(action); })) {
    if (parsed.remarks.empty()) throw std::runtime_error("Clang crashed while it read " + text);
    compiler.release();  // NOLINT: in no state to be destroyed
  }
  llvm::CrashRecoveryContext::Disable();
  std::sort(parsed.absent.begin(), parsed.absent.end());
  parsed.absent.erase(std::unique(parsed.absent.begin(), parsed.absent.end()), parsed.absent.end());
  // What exists is no candidate that did not: another include may have found it from elsewhere.
  std::erase_if(parsed.absent, [](const Parsed::Absent& absent) { return fs::exists(absent.path); });
  return parsed;
}

}  // namespace modgen
