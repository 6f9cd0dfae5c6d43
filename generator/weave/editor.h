// Edits of one function's text, collected in any order.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"

namespace modgen {

/// Collects the edits of one function. Insertions at the same offset keep their order: statements first, then
/// expressions from the outermost to the innermost.
class Editor {
 public:
  Editor(const std::string& text, const Function& function) : text_(text), function_(function) {}

  void replace(SourceSpan where, std::string with) { edits_.push_back({where, std::move(with)}); }
  /// Inserts `code` as a separate statement before `statement`, above the comments that belong to it.
  void insert_before(const Stmt& statement, const std::string& code);
  void insert_after(const Stmt& statement, const std::string& code);
  /// Writes `before` and `after` around an expression when finish() is called.
  void wrap(SourceSpan span, std::string before, std::string after);

  /// Returns the edits in source order.
  std::vector<Edit> finish();

  std::string source(SourceSpan span) const { return text_.substr(span.begin, span.end - span.begin); }

 private:
  struct Wrap {
    SourceSpan span;
    std::string before, after;
  };

  uint32_t line_start(uint32_t offset) const;
  bool is_blank(uint32_t begin, uint32_t end) const { return text_.find_first_not_of(" \t", begin) >= end; }
  bool starts_comment(uint32_t line) const;

  const std::string& text_;
  const Function& function_;
  std::vector<Wrap> wraps_;
  std::vector<Edit> edits_;
};

/// Returns `text` from `begin` to `end` with `edits` applied. The edits are sorted and do not overlap.
std::string edited(const std::string& text, const std::vector<Edit>& edits, uint32_t begin, uint32_t end);

}  // namespace modgen
