#include "generator/print/format.h"

#include <clang/Format/Format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace modgen {
namespace {

constexpr char kFile[] = "generated.h";

using clang::tooling::Range;
using clang::tooling::Replacements;

/// The project's style, specified completely, so that neither a file nor another release of Clang changes the output.
clang::format::FormatStyle style() {
  clang::format::FormatStyle style = clang::format::getGoogleStyle(clang::format::FormatStyle::LK_Cpp);
  style.ColumnLimit = kColumns;
  // Both passes read the entire text again and have nothing to do here.
  style.FixNamespaceComments = false;
  style.SortUsingDeclarations = clang::format::FormatStyle::SUD_Never;
  style.DerivePointerAlignment = false;
  style.PointerAlignment = clang::format::FormatStyle::PAS_Left;
  style.IncludeStyle.IncludeBlocks = clang::tooling::IncludeStyle::IBS_Preserve;
  return style;
}

/// Joins nearby ranges: clang-format compares every token with every range, so a few long ranges are faster than many
/// short ones.
std::vector<Range> join_near(const std::vector<Range>& ranges) {
  constexpr unsigned kNear = 200;
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && range.getOffset() < joined.back().getOffset() + joined.back().getLength() + kNear) {
      const unsigned begin = joined.back().getOffset();
      joined.back() = {begin, range.getOffset() + range.getLength() - begin};
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

/// The replacements that format the ranges `wanted` of `code`, computed by passing clang-format only the ranges `read`,
/// concatenated. Both are sorted, and each wanted range is inside a read range. clang-format reads its input several
/// times, no matter how little it has to change.
Replacements changes_in(const std::string& code, const std::vector<Range>& read, const std::vector<Range>& wanted) {
  std::string text;
  std::vector<Range> wanted_in_text;
  auto next = wanted.begin();
  for (const Range& part : read) {
    const unsigned shift = part.getOffset() - static_cast<unsigned>(text.size()),
                   end = part.getOffset() + part.getLength();
    for (; next != wanted.end() && next->getOffset() < end; ++next)
      wanted_in_text.emplace_back(next->getOffset() - shift, next->getLength());
    text.append(code, part.getOffset(), part.getLength());
  }
  Replacements changes;
  size_t index = 0;
  unsigned begin = 0;  // offset of read[index] in `text`
  for (const auto& change : clang::format::reformat(style(), text, wanted_in_text, kFile)) {
    while (index + 1 < read.size() && change.getOffset() >= begin + read[index].getLength())
      begin += read[index++].getLength();
    // A change across two ranges has no counterpart in the code: format the entire code.
    if (change.getOffset() + change.getLength() > begin + read[index].getLength())
      return clang::format::reformat(style(), code, wanted, kFile);
    const unsigned offset = change.getOffset() - begin + read[index].getOffset();
    if (auto rejected = changes.add({kFile, offset, change.getLength(), change.getReplacementText()}))
      throw std::logic_error("formatting failed: " + llvm::toString(std::move(rejected)));
  }
  return changes;
}

/// Offsets that divide formatted code into blocks which clang-format formats the same way alone as in context: lines
/// that start at the first column after an empty line in the namespace. Only 0 if an empty line may be part of
/// something else.
std::vector<size_t> block_starts(const std::string& code) {
  std::vector<size_t> starts = {0};
  for (const char* spans_lines : {"R\"", "clang-format off", "\n#if"})
    if (code.find(spans_lines) != std::string::npos) return starts;
  for (size_t at = 0; (at = code.find("/*", at)) != std::string::npos; at += 2)
    if (code.find("\n\n", at) < code.find("*/", at)) return starts;
  constexpr std::string_view kNamespace = "\nnamespace ";
  const size_t opened = code.find(kNamespace);
  if (opened == std::string::npos || code.find(kNamespace, opened + 1) != std::string::npos) return starts;
  for (size_t at = opened; (at = code.find("\n\n", at)) != std::string::npos; ++at)
    if (at + 2 < code.size() && std::string_view(" }\n").find(code[at + 2]) == std::string_view::npos)
      starts.push_back(at + 2);
  return starts;
}

/// `begin`, and the offsets after empty lines where members begin of a class in [begin, end) of formatted code.
std::vector<size_t> member_starts(std::string_view code, size_t begin, size_t end) {
  std::vector<size_t> starts = {begin};
  const std::string_view block = code.substr(begin, end - begin);
  const auto defines = [&](std::string_view head) {
    return block.starts_with(head) || block.find("\n" + std::string(head)) != std::string_view::npos;
  };
  if (!defines("class ") && !defines("struct ")) return starts;
  for (size_t at = 0; (at = block.find("\n\n  ", at)) != std::string_view::npos; ++at)
    if (at + 4 < block.size() && block[at + 4] != ' ' && block[at + 4] != '}') starts.push_back(begin + at + 2);
  return starts;
}

/// The parts between `starts` and `end` that overlap `changed` ranges, and the first and last part, which contain the
/// enclosing braces.
std::vector<Range> parts_with(const std::vector<size_t>& starts, size_t end, const std::vector<Range>& changed) {
  std::vector<Range> parts;
  for (size_t part = 0; part < starts.size(); ++part) {
    const size_t begin = starts[part], next = part + 1 < starts.size() ? starts[part + 1] : end;
    const bool overlaps = std::ranges::any_of(changed, [&](const Range& changed_range) {
      return changed_range.getOffset() < next && changed_range.getOffset() + changed_range.getLength() >= begin;
    });
    if (part == 0 || part + 1 == starts.size() || overlaps) parts.push_back(range(begin, next));
  }
  return parts;
}

/// The blocks of `code`, or members in the case of classes, that overlap `changed` ranges.
std::vector<Range> blocks_with(const std::string& code, const std::vector<Range>& changed) {
  std::vector<Range> blocks;
  for (const Range& block : parts_with(block_starts(code), code.size(), changed)) {
    const size_t begin = block.getOffset(), end = begin + block.getLength();
    for (const Range& part : parts_with(member_starts(code, begin, end), end, changed)) blocks.push_back(part);
  }
  return blocks;
}

/// The ranges, in the changed code, where `changes` of `code` broke or joined lines.
std::vector<Range> rebroken(const std::string& code, const Replacements& changes) {
  std::vector<Range> ranges;
  size_t grown = 0;
  for (const auto& change : changes) {
    const size_t begin = change.getOffset(), length = change.getLength();
    const llvm::StringRef before(code.data() + begin, length), after = change.getReplacementText();
    if (before.count('\n') != after.count('\n')) ranges.push_back(range(begin + grown, begin + grown + after.size()));
    grown += after.size() - length;
  }
  return ranges;
}

}  // namespace

std::string format(std::string code, std::vector<Range> ranges) {
  // A broken line may trigger another formatting rule. At most two rounds have been observed.
  for (int round = 0; round < 8; ++round) {
    const Replacements changes = changes_in(code, round == 0 ? ranges : blocks_with(code, ranges), ranges);
    auto formatted = clang::tooling::applyAllReplacements(code, changes);
    if (!formatted) throw std::logic_error("formatting failed: " + llvm::toString(formatted.takeError()));
    ranges = join_near(rebroken(code, changes));
    code = std::move(*formatted);
    if (ranges.empty()) return code;
  }
  throw std::logic_error("formatting does not converge");
}

}  // namespace modgen
