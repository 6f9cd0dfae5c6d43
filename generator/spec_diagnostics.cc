// Maps the remarks of the parse, which are about specs and flattened texts, to diagnostics about specs.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generator/family_job.h"
#include "generator/source/fixes.h"

namespace modgen {
namespace {

std::string without_extra_namespace(std::string text) {
  constexpr std::string_view kExtra = "modular::flattened::";
  for (size_t at; (at = text.find(kExtra)) != std::string::npos;) text.replace(at, kExtra.size(), "modular::");
  return text;
}

/// Maps a remark on flattened text to the spec: to the text's own location or, if the text is inherited, to the code
/// that needs it, with a note.
Diagnostic to_diagnostic(const Parsed& parsed, const Remark& remark, const std::vector<FamilyJob>& jobs) {
  Diagnostic result{remark.severity, {}, without_extra_namespace(remark.message), remark.advice, {}};
  SourceSpan where = remark.where;
  const auto job =
      std::ranges::find_if(jobs, [&](const FamilyJob& one) { return one.file != 0 && one.file == where.file; });
  if (job != jobs.end()) {
    const Spec& spec = job->family->spec();
    const SourceSpan origin = job->text.origin(where.begin), cause = job->text.cause(where.begin);
    where = origin;
    if (origin.file != spec.file && remark.severity != Diagnostic::Severity::note) {
      result.notes.push_back({Diagnostic::Severity::note,
                              parsed.sources.locate(origin),
                              "in this inherited code, as flattened for the family",
                              "",
                              {}});
      where = cause.file == spec.file ? cause : spec.family;
    }
  }
  result.where = parsed.sources.locate(where);
  for (const Edit& edit : remark.fix)
    if (const std::optional<SourceSpan> on_disk = parsed.sources.on_disk(edit.where))
      result.fix.push_back(fix_it(parsed.sources[on_disk->file], {*on_disk, edit.text}));
  // Flattened text is not a file, so it cannot be fixed.
  if (std::any_of(result.fix.begin(), result.fix.end(), [](const FixIt& one) { return one.path.empty(); }))
    result.fix.clear();
  for (const Remark& note : remark.notes) {
    Diagnostic moved = to_diagnostic(parsed, note, jobs);
    if (!moved.where.path.empty()) result.notes.push_back(std::move(moved));
  }
  return result;
}

/// A cycle of specs causes errors about missing names; reports the cycle instead.
void report_cycle(Parsed& parsed) {
  std::set<uint32_t> done;
  std::vector<uint32_t> path;
  bool found = false;
  const std::function<void(uint32_t)> visit = [&](uint32_t file) {
    path.push_back(file);
    for (const Inclusion& inclusion : parsed.inclusions) {
      if (inclusion.file != file || inclusion.target == 0 || found) continue;
      const auto seen = std::find(path.begin(), path.end(), inclusion.target);
      if (seen != path.end()) {
        // Independent of where it is found: it begins with the first path.
        std::vector<uint32_t> circle(seen, path.end());
        std::rotate(
            circle.begin(),
            std::min_element(circle.begin(), circle.end(),
                             [&](uint32_t a, uint32_t b) { return parsed.sources[a].path < parsed.sources[b].path; }),
            circle.end());
        std::string names;
        for (const uint32_t one : circle) names += parsed.sources[one].path + " -> ";
        const uint32_t next = circle[circle.size() > 1 ? 1 : 0];
        const auto first = std::find_if(parsed.inclusions.begin(), parsed.inclusions.end(), [&](const Inclusion& one) {
          return one.file == circle.front() && one.target == next;
        });
        parsed.remarks.clear();
        parsed.remarks.push_back({Diagnostic::Severity::error,
                                  {first->file, first->offset, first->offset},
                                  "specs include each other in a cycle: " + names + parsed.sources[circle.front()].path,
                                  "move the declarations that both need into a separate spec",
                                  {}});
        found = true;
      } else if (!done.count(inclusion.target)) {
        visit(inclusion.target);
      }
    }
    path.pop_back();
    done.insert(file);
  };
  for (uint32_t file = 1; file < parsed.sources.size(); ++file)
    if (!done.count(file)) visit(file);
}

}  // namespace

std::vector<Diagnostic> to_diagnostics(Parsed& parsed, const ParseOptions& folders,
                                       const std::vector<FamilyJob>& jobs) {
  report_cycle(parsed);
  explain_messages(parsed, folders, jobs);
  std::vector<Diagnostic> diagnostics;
  for (const Remark& remark : parsed.remarks) diagnostics.push_back(to_diagnostic(parsed, remark, jobs));
  return diagnostics;
}

}  // namespace modgen
