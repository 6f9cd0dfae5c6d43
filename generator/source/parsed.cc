#include "generator/source/parsed.h"

#include <clang/AST/DeclTemplate.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Lex/Lexer.h>
#include <llvm/Support/ConvertUTF.h>

#include <algorithm>

#include "generator/source/slices.h"

namespace modgen {

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

namespace {

/// The offset in the file on disk of `offset` in the text as read. Implicit text maps to its insertion point.
uint32_t offset_on_disk(const SourceFile& file, uint32_t offset) {
  uint32_t before = 0;  // bytes of implicit text so far
  for (const ImplicitText& one : file.implicit_texts) {
    if (offset <= one.offset + before) break;
    const auto size = static_cast<uint32_t>(one.text.size());
    if (offset < one.offset + before + size) return one.offset;
    before += size;
  }
  return offset - before;
}

}  // namespace

std::string with_implicit_text(const std::string& text, const std::vector<ImplicitText>& implicit_texts) {
  std::string result;
  uint32_t at = 0;
  for (const ImplicitText& one : implicit_texts) {
    result.append(text, at, one.offset - at).append(one.text);
    at = one.offset;
  }
  return result.append(text, at, std::string::npos);
}

Location SourceTable::locate(SourceSpan span) const {
  Location result;
  if (span.file == 0) return result;
  const SourceFile& file = files_[span.file];
  const auto offset = static_cast<uint32_t>(std::min<size_t>(span.begin, file.text.size()));
  const auto line_begin = static_cast<uint32_t>(offset == 0 ? 0 : file.text.rfind('\n', offset - 1) + 1);
  const auto line_end = static_cast<uint32_t>(std::min(file.text.find('\n', offset), file.text.size()));
  result.path = file.path;
  result.line =
      1 + static_cast<uint32_t>(std::count(file.text.begin(), file.text.begin() + static_cast<long>(line_begin), '\n'));
  const uint32_t written_begin = offset_on_disk(file, line_begin);
  result.column = offset_on_disk(file, offset) - written_begin + 1;
  result.source_line = file.text.substr(line_begin, line_end - line_begin);
  uint32_t before = 0;
  for (const ImplicitText& one : file.implicit_texts) {
    const auto size = static_cast<uint32_t>(one.text.size());
    if (one.offset + before >= line_begin && one.offset + before + size <= line_end)
      result.source_line.erase(one.offset - written_begin, size);
    before += size;
  }
  return result;
}

std::optional<SourceSpan> SourceTable::on_disk(SourceSpan span) const {
  const SourceFile& file = files_[span.file];
  uint32_t before = 0;
  for (const ImplicitText& one : file.implicit_texts) {
    const auto begin = one.offset + before, end = begin + static_cast<uint32_t>(one.text.size());
    if (begin <= span.begin && span.end <= end && (begin < span.begin || span.end < end || span.begin < span.end))
      return std::nullopt;
    before += static_cast<uint32_t>(one.text.size());
  }
  return SourceSpan{span.file, offset_on_disk(file, span.begin), offset_on_disk(file, span.end)};
}

std::optional<Remark> encoding_error(uint32_t file, const std::string& text) {
  const auto* at = reinterpret_cast<const llvm::UTF8*>(text.data());
  if (!llvm::isLegalUTF8String(&at, at + text.size()))
    return Remark{Diagnostic::Severity::error, {file, 0, 0}, "this spec is not UTF-8", "save it as UTF-8", {}};
  if (text.starts_with("\xEF\xBB\xBF") || text.find('\0') != std::string::npos)
    return Remark{Diagnostic::Severity::error,
                  {file, 0, 0},
                  "this spec has a byte order mark or a zero byte",
                  "save it as UTF-8 without them",
                  {}};
  return std::nullopt;
}

bool Parsed::has_errors() const {
  return std::ranges::any_of(remarks, [](const Remark& one) { return one.severity == Diagnostic::Severity::error; });
}

uint32_t Parsed::index_of(clang::FileID file) const {
  const auto found = file_ids.find(file.getHashValue());
  return found == file_ids.end() ? 0 : found->second;
}

SourceSpan Parsed::token(const clang::SourceManager& manager, clang::SourceLocation location) const {
  if (location.isInvalid()) return {};
  const auto [file, offset] = manager.getDecomposedLoc(manager.getFileLoc(location));
  const uint32_t index = index_of(file);
  if (index == 0) return {};
  const unsigned length = clang::Lexer::MeasureTokenLength(manager.getFileLoc(location), manager, language_of_specs());
  return {index, offset, offset + length};
}

SourceSpan Parsed::span(const clang::SourceManager& manager, clang::SourceRange range) const {
  const auto first = manager.getExpansionRange(range.getBegin()).getBegin();
  const auto last = manager.getExpansionRange(range.getEnd()).getEnd();
  SourceSpan begin = token(manager, first), end = token(manager, last);
  // Both ends are in the arguments of one macro: the range as written there.
  if (range.getBegin().isMacroID() && range.getEnd().isMacroID() && manager.isMacroArgExpansion(range.getBegin()) &&
      manager.isMacroArgExpansion(range.getEnd())) {
    begin = token(manager, range.getBegin());
    end = token(manager, range.getEnd());
  }
  return {begin.file, begin.begin, end.end};
}

SourceSpan Parsed::span(const clang::SourceManager& manager, const clang::Decl& decl) const {
  // Clang's range of `int f(auto x)`, a template without a written head, is not valid.
  const auto* function_template = llvm::dyn_cast<clang::FunctionTemplateDecl>(&decl);
  const bool has_head = !function_template || function_template->getBeginLoc().isValid();
  return span(manager, has_head ? decl.getSourceRange() : function_template->getTemplatedDecl()->getSourceRange());
}

}  // namespace modgen
