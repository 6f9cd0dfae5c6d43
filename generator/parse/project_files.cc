#include "generator/parse/project_files.h"

#include <clang/Basic/FileManager.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Lex/MacroInfo.h>
#include <clang/Lex/Token.h>

#include <algorithm>
#include <filesystem>

namespace fs = std::filesystem;

namespace modgen {
namespace {

bool lies_below(const std::string& path, const std::string& folder) {
  return path.size() > folder.size() && path.compare(0, folder.size(), folder) == 0 && path[folder.size()] == '/';
}

std::string shown_path(const ParseOptions& options, const std::string& absolute) {
  return lies_below(absolute, options.root) ? absolute.substr(options.root.size() + 1) : absolute;
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
                    manager.getBufferData(file).str()};
  parsed_.file_ids[file.getHashValue()] = parsed_.sources.add(std::move(source));
}

void ProjectFiles::InclusionDirective(clang::SourceLocation hash, const clang::Token&, llvm::StringRef name,
                                      bool angled, clang::CharSourceRange, clang::OptionalFileEntryRef found,
                                      llvm::StringRef, llvm::StringRef, const clang::Module*, bool,
                                      clang::SrcMgr::CharacteristicKind) {
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

void ProjectFiles::MacroDefined(const clang::Token& name, const clang::MacroDirective* directive) {
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
  if (where.file == 0 || --depth_[where.file] > 0) return;
  for (Condition& condition : parsed_.conditions)
    if (condition.where.file == where.file && !condition.closed)
      condition = {{where.file, condition.where.begin, where.end}, true};
}

void ProjectFiles::resolve_inclusions() {
  for (const auto& [index, target] : pending_) parsed_.inclusions[index].target = parsed_.sources.find(target);
  pending_.clear();
}

void ProjectFiles::open(clang::SourceLocation at) {
  const SourceSpan where = parsed_.token(compiler_.getSourceManager(), at);
  if (where.file != 0 && depth_[where.file]++ == 0) parsed_.conditions.push_back({where, false});
}

}  // namespace modgen
