#include "generator/parse/prelude.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Basic/Version.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/Support/SHA256.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "generator/parse/abridged.h"
#include "generator/parse/compiler.h"
#include "generator/parse/project_files.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

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

}  // namespace

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

}  // namespace modgen
