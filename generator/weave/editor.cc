#include "generator/weave/editor.h"

#include <algorithm>

namespace modgen {

void Editor::insert_before(const Stmt& statement, const std::string& code) {
  uint32_t offset = statement.span.begin;
  uint32_t line = line_start(offset);
  if (is_blank(line, offset) && line > function_.body.span.begin) {
    while (line > function_.body.span.begin) {
      const uint32_t above = line_start(line - 1);
      if (above <= function_.body.span.begin || !starts_comment(above)) break;
      line = above;
    }
    offset = line;
  }
  replace({statement.span.file, offset, offset}, code + "\n");
}

void Editor::insert_after(const Stmt& statement, const std::string& code) {
  uint32_t offset = statement.span.end;
  const uint32_t line_end = static_cast<uint32_t>(std::min(text_.find('\n', offset), text_.size()));
  const size_t next = text_.find_first_not_of(" \t", offset);
  if (next == line_end || text_.compare(next, 2, "//") == 0) offset = line_end;
  replace({statement.span.file, offset, offset}, "\n" + code);
}

void Editor::wrap(SourceSpan span, std::string before, std::string after) {
  wraps_.push_back({span, std::move(before), std::move(after)});
}

std::vector<Edit> Editor::finish() {
  struct Piece {
    uint32_t offset;
    bool closes;
    uint32_t length;
    size_t order;
    std::string text;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < wraps_.size(); ++i) {
    const Wrap& wrap = wraps_[i];
    const uint32_t length = wrap.span.end - wrap.span.begin;
    if (!wrap.before.empty()) pieces.push_back({wrap.span.begin, false, length, i, wrap.before});
    if (!wrap.after.empty()) pieces.push_back({wrap.span.end, true, length, i, wrap.after});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    if (a.offset != b.offset) return a.offset < b.offset;
    if (a.closes != b.closes) return a.closes;
    if (a.length != b.length) return a.closes ? a.length < b.length : a.length > b.length;
    return a.closes ? a.order > b.order : a.order < b.order;
  });
  for (Piece& piece : pieces) replace({function_.body.span.file, piece.offset, piece.offset}, std::move(piece.text));
  std::stable_sort(edits_.begin(), edits_.end(), [](const Edit& a, const Edit& b) {
    return a.where.begin != b.where.begin ? a.where.begin < b.where.begin : a.where.empty() && !b.where.empty();
  });
  return std::move(edits_);
}

uint32_t Editor::line_start(uint32_t offset) const {
  const size_t newline = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
  return newline == std::string::npos ? 0 : static_cast<uint32_t>(newline + 1);
}

bool Editor::starts_comment(uint32_t line) const {
  const size_t first = text_.find_first_not_of(" \t", line);
  return first != std::string::npos && text_.compare(first, 2, "//") == 0;
}

std::string edited(const std::string& text, const std::vector<Edit>& edits, uint32_t begin, uint32_t end) {
  std::string result;
  uint32_t at = begin;
  for (const Edit& edit : edits) {
    result.append(text, at, edit.where.begin - at);
    result += edit.text;
    at = edit.where.end;
  }
  return result.append(text, at, end - at);
}

}  // namespace modgen
