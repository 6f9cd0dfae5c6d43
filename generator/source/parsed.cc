#include "generator/source/parsed.h"

#include <clang/Basic/SourceManager.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>

#include "generator/source/language.h"

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
  // Both ends in the arguments of one macro: the range that was written there.
  if (range.getBegin().isMacroID() && range.getEnd().isMacroID() && manager.isMacroArgExpansion(range.getBegin()) &&
      manager.isMacroArgExpansion(range.getEnd())) {
    begin = token(manager, range.getBegin());
    end = token(manager, range.getEnd());
  }
  return {begin.file, begin.begin, end.end};
}

}  // namespace modgen
