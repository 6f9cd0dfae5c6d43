#include "generator/parse/project_files.h"

#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Lex/MacroInfo.h>
#include <clang/Lex/Token.h>

#include <algorithm>
#include <filesystem>

#include "generator/source/slices.h"

namespace fs = std::filesystem;

namespace modgen {
namespace {

bool is_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 && path[folder.size()] == '/';
}

std::vector<RawToken> code_tokens(const std::string& text) {
  std::vector<RawToken> tokens = raw_tokens(text, 0, static_cast<uint32_t>(text.size()));
  std::erase_if(tokens, [](const RawToken& token) { return token.kind == RawToken::Kind::comment; });
  return tokens;
}

std::string shown_path(const ParseOptions& options, const std::string& absolute) {
  return is_below(absolute, options.root) ? absolute.substr(options.root.size() + 1) : absolute;
}

}  // namespace

void ProjectFiles::FileChanged(clang::SourceLocation location, FileChangeReason reason,
                               clang::SrcMgr::CharacteristicKind kind, clang::FileID) {
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
                    manager.getBufferData(file).str(), implicit_[&entry->getFileEntry()]};
  parsed_.file_ids[file.getHashValue()] = parsed_.sources.add(std::move(source));
}

void ProjectFiles::InclusionDirective(clang::SourceLocation hash, const clang::Token&, llvm::StringRef name,
                                      bool angled, clang::CharSourceRange, clang::OptionalFileEntryRef found,
                                      llvm::StringRef, llvm::StringRef, const clang::Module*, bool,
                                      clang::SrcMgr::CharacteristicKind) {
  if (found) add_implicit_text(*found);  // before it is entered
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
}

/// Overrides the contents of a spec's file, once, with its text plus the declarations that it omits.
void ProjectFiles::add_implicit_text(clang::FileEntryRef spec) {
  const fs::path path = spec.getName().str();
  if (path.parent_path().filename() != "modular" || path.filename() == "modular.h" || path.extension() != ".h" ||
      implicit_.count(&spec.getFileEntry()))
    return;
  std::vector<ImplicitText>& insertions = implicit_[&spec.getFileEntry()];
  const auto buffer = compiler_.getFileManager().getBufferForFile(spec);
  if (!buffer) return;  // Clang reports it
  const std::string text = (*buffer)->getBuffer().str();
  std::set<std::string> modules = contract_modules();
  for (const std::string& other : included_specs(text)) modules.merge(std::set(modules_of_spec(other)));
  insertions = find_implicit_text(text, modules);
  if (!insertions.empty())
    compiler_.getSourceManager().overrideFileContents(
        spec, llvm::MemoryBuffer::getMemBufferCopy(with_implicit_text(text, insertions), spec.getName()));
}

/// The module classes that a spec and its included specs declare.
const std::set<std::string>& ProjectFiles::modules_of_spec(const std::string& name) {
  const auto [found, is_new] = modules_.try_emplace(name);  // before its includes: they may include it again
  if (!is_new) return found->second;
  for (const std::string& folder : {options_.root, options_.shipped}) {
    const auto buffer = compiler_.getFileManager().getBufferForFile(folder + "/modular/" + name + ".h");
    if (!buffer) continue;
    const std::string text = (*buffer)->getBuffer().str();
    std::set<std::string> modules = contract_modules();
    for (const std::string& other : included_specs(text)) modules.merge(std::set(modules_of_spec(other)));
    modules.merge(declared_modules(text, modules));
    return found->second = std::move(modules);
  }
  return found->second;
}

/// The module classes of the prelude's headers.
const std::set<std::string>& ProjectFiles::contract_modules() {
  if (!contract_modules_) {
    contract_modules_.emplace();
    for (const std::string& path : parsed_.prelude)
      if (const auto buffer = compiler_.getFileManager().getBufferForFile(path);
          buffer && (*buffer)->getBuffer().contains("TORCH_MODULE("))
        contract_modules_->merge(declared_modules((*buffer)->getBuffer().str(), {}));
  }
  return *contract_modules_;
}

void ProjectFiles::MacroDefined(const clang::Token& name, const clang::MacroDirective* directive) {
  const auto& manager = compiler_.getSourceManager();
  const SourceSpan where = parsed_.token(manager, name.getLocation());
  if (where.file == 0) return;
  if (parsed_.sources[where.file].guard == name.getIdentifierInfo()->getName()) return;
  const SourceSpan end = parsed_.token(manager, directive->getMacroInfo()->getDefinitionEndLoc());
  definitions_[directive->getMacroInfo()] = parsed_.macros.size();
  parsed_.macros.push_back({name.getIdentifierInfo()->getName().str(),
                            where,
                            {where.file, where.begin, std::max(where.end, end.end)},
                            false});
}

void ProjectFiles::MacroUndefined(const clang::Token& name, const clang::MacroDefinition&,
                                  const clang::MacroDirective*) {
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), name.getLocation());
  if (where.file != 0) parsed_.undefs.push_back(where);
  for (modgen::MacroDefinition& macro : parsed_.macros)
    if (macro.name == name.getIdentifierInfo()->getName() && macro.where.file == where.file) macro.undefined = true;
}

void ProjectFiles::MacroExpands(const clang::Token& name, const clang::MacroDefinition& definition, clang::SourceRange,
                                const clang::MacroArgs*) {
  const auto found = definitions_.find(definition.getMacroInfo());
  if (found == definitions_.end()) return;
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), name.getLocation());
  if (where.file != 0) parsed_.macro_uses.push_back({where, found->second});
}

void ProjectFiles::Endif(clang::SourceLocation at, clang::SourceLocation) {
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
  if (where.file == 0 || depth_[where.file] == 0 || --depth_[where.file] > 0) return;
  for (Condition& condition : parsed_.conditions)
    if (condition.where.file == where.file && !condition.closed)
      condition = {{where.file, condition.where.begin, where.end}, true};
}

void ProjectFiles::resolve_inclusions() {
  for (const auto& [index, target] : pending_) parsed_.inclusions[index].target = parsed_.sources.find(target);
  pending_.clear();
}

/// An #ifndef at the beginning of a file is an include guard if its name is defined next and its #endif ends the file.
void ProjectFiles::Ifndef(clang::SourceLocation at, const clang::Token& name, const clang::MacroDefinition&) {
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
  if (where.file == 0) return;
  SourceFile& file = parsed_.sources[where.file];
  const std::string guard = name.getIdentifierInfo()->getName().str();
  const std::vector<RawToken> tokens = code_tokens(file.text);
  const auto word = [&](size_t index) {
    return index < tokens.size() ? file.text.substr(tokens[index].begin, tokens[index].end - tokens[index].begin) : "";
  };
  size_t first = 0;
  if (word(0) == "#" && word(1) == "pragma" && word(2) == "once") first = 3;
  if (first + 6 < tokens.size() && tokens[first].end <= where.begin && where.begin <= tokens[first + 1].begin &&
      word(first + 3) == "#" && word(first + 4) == "define" && word(first + 5) == guard &&
      word(tokens.size() - 2) == "#" && word(tokens.size() - 1) == "endif")
    file.guard = guard;
  else
    open(at);
}

void ProjectFiles::open(clang::SourceLocation at) {
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
  if (where.file != 0 && depth_[where.file]++ == 0) parsed_.conditions.push_back({where, false});
}

}  // namespace modgen
