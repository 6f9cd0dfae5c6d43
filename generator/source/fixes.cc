#include "generator/source/fixes.h"

#include <clang/Tooling/Core/Replacement.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <tuple>

#include "generator/source/files.h"
#include "generator/source/slices.h"

namespace fs = std::filesystem;

namespace modgen {

namespace {

Edit insertion(uint32_t file, size_t offset, std::string text) {
  const auto at = static_cast<uint32_t>(offset);
  return {{file, at, at}, std::move(text)};
}

/// The offset after the line break that ends the line of `offset`; the text's size if it has none.
size_t next_line(const std::string& text, size_t offset) {
  const size_t end = text.find('\n', offset);
  return end == std::string::npos ? text.size() : end + 1;
}

bool blank(const std::string& text, size_t begin, size_t end) {
  return std::all_of(text.begin() + static_cast<long>(begin), text.begin() + static_cast<long>(end),
                     [](unsigned char c) { return std::isspace(c); });
}

}  // namespace

std::vector<Edit> include_spec(const Parsed& parsed, uint32_t file, const std::string& family) {
  const std::string& text = parsed.sources[file].text;
  const std::string line = "#include \"modular/" + family + ".h\"\n";
  const Inclusion* last = nullptr;
  for (const Inclusion& inclusion : parsed.inclusions) {
    const bool guarded = std::any_of(parsed.conditions.begin(), parsed.conditions.end(), [&](const Condition& one) {
      return one.where.contains({file, inclusion.offset, inclusion.offset});
    });
    if (inclusion.file == file && !guarded && (!last || last->offset < inclusion.offset)) last = &inclusion;
  }
  if (last) return {insertion(file, next_line(text, last->offset), line)};
  const size_t pragma = text.find("#pragma once");
  if (pragma == std::string::npos) return {};
  return {insertion(file, next_line(text, pragma), "\n" + line)};
}

std::vector<Edit> add_pragma_once(const Parsed& parsed, uint32_t file) {
  const std::string& text = parsed.sources[file].text;
  size_t at = 0;
  while (text.compare(at, 2, "//") == 0) at = next_line(text, at);
  return {insertion(file, at, "#pragma once\n")};
}

std::vector<Edit> append_line(const Parsed& parsed, uint32_t file, const std::string& line) {
  const std::string& text = parsed.sources[file].text;
  return {insertion(file, text.size(), (text.ends_with('\n') ? "" : "\n") + line + "\n")};
}

std::vector<Edit> remove_with_line(const Parsed& parsed, SourceSpan where) {
  const std::string& text = parsed.sources[where.file].text;
  if (const uint32_t next = next_code(text, where.end); next < text.size() && text[next] == ';') where.end = next + 1;
  const size_t line_begin = where.begin == 0 ? 0 : text.rfind('\n', where.begin - 1) + 1;
  const size_t line_end = next_line(text, where.end);
  const size_t after = after_line_comment(text, where.end);
  if (blank(text, line_begin, where.begin) && blank(text, after, line_end))
    where = {where.file, static_cast<uint32_t>(line_begin), static_cast<uint32_t>(line_end)};
  return {{where, ""}};
}

std::vector<Edit> write_before(SourceSpan where, const std::string& statement) {
  return {insertion(where.file, where.begin, statement + " ")};
}

std::vector<Edit> rename_class(const Parsed& parsed, uint32_t file, const std::string& name,
                               const std::string& new_name) {
  const std::string& text = parsed.sources[file].text;
  std::vector<Edit> edits;
  std::string before;
  for (const RawToken& token : raw_tokens(text, 0, static_cast<uint32_t>(text.size()))) {
    if (token.kind == RawToken::Kind::comment) continue;
    const std::string word = text.substr(token.begin, token.end - token.begin);
    if (token.kind == RawToken::Kind::identifier && (word == name || word == name + "Impl")) {
      if (before == "." || before == "->") return {};
      edits.push_back({{file, token.begin, token.end}, new_name + word.substr(name.size())});
    }
    before = word;
  }
  return edits;
}

std::vector<Edit> declare_public(const Parsed& parsed, SourceSpan open, bool is_struct, const std::string& member) {
  const std::string& text = parsed.sources[open.file].text;
  size_t at = open.end;
  std::string declaration = "\n  " + member;
  if (!is_struct) {
    const uint32_t first = next_code(text, open.end);
    const size_t colon = text.compare(first, 6, "public") == 0 ? next_code(text, first + 6) : text.size();
    if (colon < text.size() && text[colon] == ':')
      at = colon + 1;
    else
      declaration = "\n public:" + declaration + "\n\n private:";
  }
  if (at < text.size() && text[at] == '}') declaration += "\n";
  return {insertion(open.file, at, declaration)};
}

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
