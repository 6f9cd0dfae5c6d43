#include "generator/source/apply_fixes.h"

#include <clang/Tooling/Core/Replacement.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <tuple>

#include "generator/source/files.h"
#include "generator/source/line_endings.h"

namespace fs = std::filesystem;

namespace modgen {

namespace {

struct Change {
  FixIt fix;
  const Diagnostic* diagnostic;
};

bool lies_below(const std::string& path, const fs::path& root) {
  const fs::path relative = fs::path(path).lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

std::string location_and_message(const Diagnostic& diagnostic) {
  const Location& where = diagnostic.where;
  return where.path + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) + " (" +
         diagnostic.message + ")";
}

std::string with_changes(const std::string& path, const std::string& before, const std::vector<Change>& changes) {
  clang::tooling::Replacements replacements;
  for (size_t index = 0; index < changes.size(); ++index) {
    const FixIt& fix = changes[index].fix;
    if (fix.end > before.size() || fix.begin > fix.end)
      throw std::runtime_error(path + " has changed since it was read: run modgen again");
    // Several insertions at one offset become one.
    std::string text = fix.text;
    while (fix.begin == fix.end && index + 1 < changes.size() && changes[index + 1].fix.begin == fix.begin &&
           changes[index + 1].fix.end == fix.end)
      text += changes[++index].fix.text;
    if (llvm::Error error = replacements.add({path, fix.begin, fix.end - fix.begin, text})) {
      llvm::consumeError(std::move(error));
      const Diagnostic* other = index > 0 ? changes[index - 1].diagnostic : changes[index].diagnostic;
      throw std::runtime_error("the fixes of " + location_and_message(*other) + " and of " +
                               location_and_message(*changes[index].diagnostic) + " overlap: fix one by hand");
    }
  }
  llvm::Expected<std::string> after = clang::tooling::applyAllReplacements(before, replacements);
  if (!after) throw std::runtime_error(path + ": " + llvm::toString(after.takeError()));
  return *after;
}

}  // namespace

FixIt fix_it(const SourceFile& file, const Edit& edit) {
  ByteEdit change{edit.where.begin, edit.where.end, edit.text};
  const std::optional<std::string> bytes = file.absolute.empty() ? std::nullopt : read_file_if_any(file.absolute);
  if (bytes && bytes->find('\r') != std::string::npos) change = with_endings_like(*bytes, std::move(change));
  return {file.absolute, static_cast<uint32_t>(change.begin), static_cast<uint32_t>(change.end),
          std::move(change.text)};
}

std::vector<Diagnostic> mendable(const std::vector<Diagnostic>& diagnostics, const std::string& root) {
  const fs::path real_root = fs::canonical(root);
  std::vector<Diagnostic> result;
  std::ranges::copy_if(diagnostics, std::back_inserter(result), [&](const Diagnostic& diagnostic) {
    return !diagnostic.fix.empty() &&
           std::ranges::all_of(diagnostic.fix, [&](const FixIt& fix) { return lies_below(fix.path, real_root); });
  });
  return result;
}

std::vector<MendedFile> apply_fixes(const std::vector<Diagnostic>& diagnostics) {
  std::map<std::string, std::vector<Change>> changes;
  for (const Diagnostic& diagnostic : diagnostics) {
    for (const FixIt& fix : diagnostic.fix) {
      std::vector<Change>& known = changes[fix.path];
      // Families that share a base all report its errors.
      if (std::none_of(known.begin(), known.end(), [&](const Change& one) { return one.fix == fix; }))
        known.push_back({fix, &diagnostic});
    }
  }
  std::vector<MendedFile> files;
  for (auto& [path, list] : changes) {
    std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
      return std::tie(a.fix.begin, a.fix.end, a.fix.text) < std::tie(b.fix.begin, b.fix.end, b.fix.text);
    });
    const std::string before = read_file(path);
    std::string after = with_changes(path, before, list);
    if (after != before) files.push_back({path, before, std::move(after)});
  }
  return files;
}

}  // namespace modgen
