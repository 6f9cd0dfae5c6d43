#include "generator/flatten/captures.h"

#include <clang/AST/DeclCXX.h>

#include <algorithm>

#include "generator/flatten/family.h"
#include "generator/source/slices.h"

namespace modgen {

std::optional<std::string> captured_name(const Family& family, SourceSpan where, const std::set<std::string>& hidden) {
  if (hidden.empty()) return std::nullopt;
  const std::string& text = family.file_text(where.file);
  const auto& references = family.specs().of_file(where.file)->references;
  const auto names_variable_or_member = [&](uint32_t begin) {
    auto at = std::lower_bound(references.begin(), references.end(), begin,
                               [](const Reference& one, uint32_t position) { return one.where.begin < position; });
    for (; at != references.end() && at->where.begin == begin; ++at) {
      const auto* variable = llvm::dyn_cast<clang::VarDecl>(at->target);
      // A member is written this->name, a function or constant of a family with the family's name.
      const bool is_spec_name = family.specs().symbol(at->target) && !family.specs().symbol(at->target)->is_class();
      if (at->kind != Reference::Kind::name || is_spec_name || llvm::isa<clang::BindingDecl>(at->target) ||
          (variable && variable->isLocalVarDeclOrParm()))
        return true;
    }
    return false;
  };
  std::string before;
  for (const RawToken& token : raw_tokens(text, where.begin, where.end)) {
    if (token.kind == RawToken::Kind::comment) continue;
    const std::string word = text.substr(token.begin, token.end - token.begin);
    const bool is_part = before == "." || before == "->" || before == "::";
    if (token.kind == RawToken::Kind::identifier && !is_part && hidden.count(word) &&
        !names_variable_or_member(token.begin))
      return word;
    before = word;
  }
  return std::nullopt;
}

std::set<std::string> words_in(const Family& family, SourceSpan where) {
  const std::string& text = family.file_text(where.file);
  std::set<std::string> words;
  for (const RawToken& token : raw_tokens(text, where.begin, where.end))
    if (token.kind == RawToken::Kind::identifier) words.insert(text.substr(token.begin, token.end - token.begin));
  return words;
}

bool meet(const std::set<std::string>& one, const std::set<std::string>& other) {
  return std::any_of(one.begin(), one.end(), [&](const std::string& name) { return other.count(name) != 0; });
}

}  // namespace modgen
