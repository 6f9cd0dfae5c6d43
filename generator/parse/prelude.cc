
#include <clang/AST/ASTConsumer.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Basic/Version.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Serialization/ASTWriter.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SHA256.h>
#include <llvm/Support/xxhash.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "generator/parse/compiler.h"
#include "generator/parse/project_files.h"
#include "generator/source/files.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

constexpr char kPrecompiled[] = "modular.pch";

std::string prelude_key(const ParseOptions& options) {
  std::vector<std::string> files = {options.shipped + "/modular/modular.h", options.torch + "/version.py"};
  for (const auto& entry : fs::recursive_directory_iterator(options.shipped + "/runtime/model"))
    if (entry.is_regular_file() && entry.path().extension() == ".h") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  llvm::SHA256 digest;
  const auto mix = [&](llvm::StringRef text) {
    digest.update(text);
    digest.update(llvm::StringRef("\0", 1));
  };
  for (const std::string& part :
       {clang::getClangFullVersion(), options.shipped, options.torch, options.clang_resources,
        std::string("c++20 -w 5"), std::string(kStubLibrary), std::string(kStubPrelude), std::string(kUsedByMost)})
    mix(part);
  for (const std::string& file : files) {
    mix(file);
    mix(read_file(file));
  }
  return llvm::toHex(digest.final(), /*LowerCase=*/true).substr(0, 32);
}

/// Parses function bodies only in the prelude's own text. Specs need just the declarations of libtorch; its bodies
/// would only fill the cache.
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
  PreludeAction(const ParseOptions& options, Parsed& parsed, std::shared_ptr<clang::PCHBuffer> bytes)
      : options_(options), parsed_(parsed), bytes_(std::move(bytes)) {}

 protected:
  bool BeginSourceFileAction(clang::CompilerInstance& compiler) override {
    compiler.getPreprocessor().addPPCallbacks(std::make_unique<ProjectFiles>(options_, false, compiler, parsed_));
    return clang::GeneratePCHAction::BeginSourceFileAction(compiler);
  }

  /// Like Clang's own, but writes to memory: Clang's output file ends the program if the disk is full.
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    std::vector<std::unique_ptr<clang::ASTConsumer>> both;
    both.push_back(std::make_unique<clang::PCHGenerator>(
        compiler.getPreprocessor(), compiler.getModuleCache(), kPrecompiled, /*isysroot=*/"", bytes_,
        compiler.getFrontendOpts().ModuleFileExtensions, /*AllowASTWithErrors=*/false, /*IncludeTimestamps=*/false));
    both.push_back(std::make_unique<OwnBodies>(compiler));
    return std::make_unique<clang::MultiplexConsumer>(std::move(both));
  }

 private:
  const ParseOptions& options_;
  Parsed& parsed_;
  std::shared_ptr<clang::PCHBuffer> bytes_;
};

/// Keeps the most recently used preludes: each state of the contract, torch or modgen has one of 70 MB.
void remove_old_preludes(const fs::path& cache) {
  constexpr size_t kKept = 8;
  std::vector<std::pair<fs::file_time_type, fs::path>> preludes;
  std::error_code removed_by_another_process;
  for (const auto& entry : fs::directory_iterator(cache, removed_by_another_process))
    if (entry.path().filename().string().rfind("prelude-", 0) == 0)
      preludes.emplace_back(entry.last_write_time(removed_by_another_process), entry.path());
  std::sort(preludes.rbegin(), preludes.rend());
  for (size_t index = kKept; index < preludes.size(); ++index)
    fs::remove_all(preludes[index].second, removed_by_another_process);
}

struct BuiltPrelude {
  std::shared_ptr<clang::PCHBuffer> bytes = std::make_shared<clang::PCHBuffer>();
  std::string lines;  // lines of its file list
};

std::string compute_hash(llvm::StringRef bytes) { return llvm::utohexstr(llvm::xxh3_64bits(bytes)); }

/// A precompiled prelude and the list of its inputs, with the lines
///   pch HASH       of the precompiled file
///   read PATH      an input file
///   absent PATH    an include candidate that did not exist
///   end HASH       of the lines before
class StoredPrelude {
 public:
  explicit StoredPrelude(fs::path folder) : folder_(std::move(folder)) {}

  std::string precompiled() const { return (folder_ / kPrecompiled).string(); }

  /// The lines of the list; nullopt if there is no prelude or one of its files is damaged.
  std::optional<std::string> read_valid_list() const {
    const std::string text = read("files"), state = precompiled_state();
    const size_t end = text.rfind("end ");
    if (state.empty() || end == std::string::npos || text.substr(end) != last_line(text.substr(0, end)))
      return std::nullopt;
    // Hashing 70 MB takes a tenth of a run, so each state of the file, as given by its file system metadata, is hashed
    // once.
    const std::string verified = text.substr(0, text.find('\n') + 1) + state;
    if (read("verified") == verified) return text;
    const auto bytes = llvm::MemoryBuffer::getFile(precompiled(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
    if (!bytes || !text.starts_with(first_line((*bytes)->getBuffer()))) return std::nullopt;
    remember(verified);
    return text;
  }

  /// Throws std::runtime_error if it cannot be written.
  void store(const BuiltPrelude& made) const {
    const std::string_view bytes(made.bytes->Data.data(), made.bytes->Data.size());
    const std::string text = first_line(bytes) + made.lines;
    write_file(precompiled(), bytes);
    write_file(folder_ / "files", text + last_line(text));
    remember(first_line(bytes) + precompiled_state());
  }

  void mark_as_used() const {
    std::error_code owned_by_another_user;
    fs::last_write_time(folder_, fs::file_time_type::clock::now(), owned_by_another_user);
  }

 private:
  static std::string first_line(llvm::StringRef precompiled_bytes) {
    return "pch " + compute_hash(precompiled_bytes) + "\n";
  }
  static std::string last_line(llvm::StringRef lines_before) { return "end " + compute_hash(lines_before) + "\n"; }

  /// Empty if it cannot be read: missing data is computed again.
  std::string read(const char* name) const {
    try {
      return read_file_if_any(folder_ / name).value_or("");
    } catch (const std::runtime_error&) {
      return "";
    }
  }

  /// Changes with every write to the file. Empty if the file does not exist.
  std::string precompiled_state() const {
    struct stat status{};
    if (stat(precompiled().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
    std::ostringstream text;
    text << status.st_dev << ' ' << status.st_ino << ' ' << status.st_size << ' ' << status.st_mtim.tv_sec << '.'
         << status.st_mtim.tv_nsec << ' ' << status.st_ctim.tv_sec << '.' << status.st_ctim.tv_nsec << '\n';
    return text.str();
  }

  void remember(const std::string& verified) const {
    try {
      write_file(folder_ / "verified", verified);
    } catch (const std::runtime_error&) {  // a read-only cache: the next run hashes again
    }
  }

  fs::path folder_;
};

BuiltPrelude make_prelude(const ParseOptions& options) {
  BuiltPrelude result;
  Parsed made;
  Remarks remarks(made);
  auto compiler = make_compiler(options, /*header=*/true, remarks);
  compiler->getFrontendOpts().Inputs.emplace_back(
      kPrelude,
      clang::InputKind(clang::Language::CXX, clang::InputKind::Source, false, clang::InputKind::HeaderUnit_None, true));
  std::string text(kStubLibrary);
  text.append("#include \"modular/modular.h\"\n").append(kStubPrelude).append(kUsedByMost);
  compiler->getPreprocessorOpts().addRemappedFile(kPrelude, llvm::MemoryBuffer::getMemBufferCopy(text).release());
  compiler->getFrontendOpts().SkipFunctionBodies = true;
  PreludeAction action(options, made, result.bytes);
  if (!compiler->ExecuteAction(action) || !made.remarks.empty() || !result.bytes->IsComplete) {
    const std::string reason = made.remarks.empty() ? "Clang failed" : made.remarks.front().message;
    const Location where = made.remarks.empty() ? Location{} : made.sources.locate(made.remarks.front().where);
    throw std::runtime_error("cannot compile the prelude modular/modular.h: " + reason +
                             (where.line ? " (" + where.path + ":" + std::to_string(where.line) + ")" : "") +
                             "; check that " + options.torch + " is torch 2.11.0");
  }
  for (uint32_t index = 1; index < made.sources.size(); ++index)
    result.lines += "read " + made.sources[index].absolute + "\n";
  for (const Parsed::Absent& absent : made.absent) result.lines += "absent " + absent.path + "\n";
  return result;
}

/// Returns the prelude `name` and builds it if needed: in the cache or, if that is not writable, in the folder for
/// temporary files.
std::pair<StoredPrelude, std::string> stored_prelude(const ParseOptions& options, const std::string& name,
                                                     std::vector<std::string>& notices) {
  std::optional<BuiltPrelude> made;
  std::string problem = options.cache.empty() ? "no cache folder: neither XDG_CACHE_HOME nor HOME is set" : "";
  if (problem.empty()) {
    const StoredPrelude cached(fs::path(options.cache) / name);
    if (auto list = cached.read_valid_list()) return {cached, *list};
    problem = check_writable(options.cache);
    if (problem.empty()) {
      made = make_prelude(options);
      try {
        cached.store(*made);
        remove_old_preludes(options.cache);
        return {cached, made->lines};
      } catch (const std::runtime_error& error) {
        problem = error.what();
      }
    }
  }
  const fs::path folder = temporary_cache_folder();
  const StoredPrelude temporary(folder / name);
  if (auto list = temporary.read_valid_list()) return {temporary, *list};
  if (!made) made = make_prelude(options);
  temporary.store(*made);
  remove_old_preludes(folder);
  notices.push_back(problem + "; the precompiled prelude is kept in " + folder.string() +
                    " instead (--cache-dir names another folder)");
  return {temporary, made->lines};
}

}  // namespace

std::string precompiled_prelude(const ParseOptions& options, Parsed& parsed) {
  const auto [prelude, list] = stored_prelude(options, "prelude-" + prelude_key(options), parsed.notices);
  prelude.mark_as_used();
  std::istringstream lines(list);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("read ", 0) == 0) parsed.prelude.push_back(line.substr(5));
    if (line.rfind("absent ", 0) == 0) parsed.absent.push_back({0, line.substr(7)});
  }
  return prelude.precompiled();
}

}  // namespace modgen
