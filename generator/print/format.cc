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

/// The project's style, complete, so that no file and no other release of Clang can change the bytes.
clang::format::FormatStyle style() {
  clang::format::FormatStyle style = clang::format::getGoogleStyle(clang::format::FormatStyle::LK_Cpp);
  style.ColumnLimit = kColumns;
  // Each of these reads the whole text once more, and neither has anything to do here.
  style.FixNamespaceComments = false;
  style.SortUsingDeclarations = clang::format::FormatStyle::SUD_Never;
  style.DerivePointerAlignment = false;
  style.PointerAlignment = clang::format::FormatStyle::PAS_Left;
  style.IncludeStyle.IncludeBlocks = clang::tooling::IncludeStyle::IBS_Preserve;
  return style;
}

/// clang-format compares every token with every range, so that few long ones take less time than many short ones.
std::vector<Range> near_ones_joined(const std::vector<Range>& ranges) {
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

/// What formats the ranges `asked` of `code` where no more than the ranges `read` is read, as if nothing stood between
/// them. All are in order, and each that is asked is within one that is read. clang-format reads all that it is given
/// several times, whatever it is asked to change.
Replacements changes_in(const std::string& code, const std::vector<Range>& read, const std::vector<Range>& asked) {
  std::string text;
  std::vector<Range> asked_of_text;
  auto next = asked.begin();
  for (const Range& one : read) {
    const unsigned shift = one.getOffset() - static_cast<unsigned>(text.size()),
                   end = one.getOffset() + one.getLength();
    for (; next != asked.end() && next->getOffset() < end; ++next)
      asked_of_text.emplace_back(next->getOffset() - shift, next->getLength());
    text.append(code, one.getOffset(), one.getLength());
  }
  Replacements changes;
  size_t index = 0;
  unsigned begin = 0;  // of read[index] in `text`
  for (const auto& change : clang::format::reformat(style(), text, asked_of_text, kFile)) {
    while (index + 1 < read.size() && change.getOffset() >= begin + read[index].getLength())
      begin += read[index++].getLength();
    // What joins two ranges is not in the code.
    if (change.getOffset() + change.getLength() > begin + read[index].getLength())
      return clang::format::reformat(style(), code, asked, kFile);
    const unsigned offset = change.getOffset() - begin + read[index].getOffset();
    if (auto rejected = changes.add({kFile, offset, change.getLength(), change.getReplacementText()}))
      throw std::logic_error("formatting failed: " + llvm::toString(std::move(rejected)));
  }
  return changes;
}

/// Where formatted code divides into blocks that clang-format treats alone as it does in the whole: at the first column
/// after an empty line in the namespace. Only at 0 where an empty line may mean something else.
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

/// Where the members of a class that is in [begin, end) of formatted code begin after an empty line, and `begin`.
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

/// The parts that begin at `starts` and end at `end` into which `changed` ranges reach, and the first and the last,
/// where the braces are that they stand in.
std::vector<Range> parts_with(const std::vector<size_t>& starts, size_t end, const std::vector<Range>& changed) {
  std::vector<Range> parts;
  for (size_t part = 0; part < starts.size(); ++part) {
    const size_t begin = starts[part], next = part + 1 < starts.size() ? starts[part + 1] : end;
    const bool is_reached = std::ranges::any_of(changed, [&](const Range& one) {
      return one.getOffset() < next && one.getOffset() + one.getLength() >= begin;
    });
    if (part == 0 || part + 1 == starts.size() || is_reached) parts.push_back(range(begin, next));
  }
  return parts;
}

/// The blocks of `code`, of classes the members, that `changed` ranges reach into.
std::vector<Range> blocks_with(const std::string& code, const std::vector<Range>& changed) {
  std::vector<Range> blocks;
  for (const Range& block : parts_with(block_starts(code), code.size(), changed)) {
    const size_t begin = block.getOffset(), end = begin + block.getLength();
    for (const Range& part : parts_with(member_starts(code, begin, end), end, changed)) blocks.push_back(part);
  }
  return blocks;
}

/// Where `changes` of `code` broke or joined lines, in the code that they make.
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
  // A line that was broken can make another rule apply to it; twice is the most seen.
  for (int round = 0; round < 8; ++round) {
    const Replacements changes = changes_in(code, round == 0 ? ranges : blocks_with(code, ranges), ranges);
    auto formatted = clang::tooling::applyAllReplacements(code, changes);
    if (!formatted) throw std::logic_error("formatting failed: " + llvm::toString(formatted.takeError()));
    ranges = near_ones_joined(rebroken(code, changes));
    code = std::move(*formatted);
    if (ranges.empty()) return code;
  }
  throw std::logic_error("formatting does not come to rest");
}

}  // namespace modgen
