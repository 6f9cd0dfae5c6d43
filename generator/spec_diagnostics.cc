// Maps the remarks of the parse, which are about specs and flattened texts, to diagnostics about specs.
#include <algorithm>
#include <cctype>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "generator/family_job.h"
#include "generator/source/families.h"
#include "generator/source/fixes.h"
#include "generator/source/names.h"

namespace modgen {
namespace {

/// The quoted text that follows `words` in `message`; empty if there is none.
std::string quoted_after(const std::string& message, const std::string& words) {
  const size_t at = message.find(words + "'");
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size() + 1;
  return message.substr(begin, message.find('\'', begin) - begin);
}

/// The name before `at`, ignoring spaces; empty if there is none.
std::string name_before(const std::string& text, uint32_t at) {
  while (at > 0 && text[at - 1] == ' ') --at;
  uint32_t begin = at;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_')) --begin;
  return text.substr(begin, at - begin);
}

/// Adds advice to a remark of Clang's if known, and replaces its message by the cause. `is_family` returns whether a
/// spec of that name exists.
void advise(Remark& remark, const Parsed& parsed, const std::function<bool(const std::string&)>& is_family) {
  if (!remark.advice.empty() || remark.severity != Diagnostic::Severity::error) return;
  const std::string& message = remark.message;
  if (const std::string name = quoted_after(message, "use of undeclared identifier "); is_family(name)) {
    remark.message = "family '" + name + "' is used without its spec";
    remark.advice = "add #include \"modular/" + name + ".h\"";
    remark.fix = include_spec(parsed, remark.where.file, name);
  } else if (const std::string base = quoted_after(message, "must explicitly initialize the base class ");
             !base.empty()) {
    const std::string impl(unqualified(base));
    remark.advice = "call the base's constructor: ': ";
    remark.advice += impl + "(…)', or an ancestor's: ': " + impl + "(skip_to<" + impl + ", …>(…))'";
  } else if (const std::string member = quoted_after(message, "no member named ");
             !member.empty() && quoted_after(message, "' in ").ends_with("Config") &&
             message.find("did you mean") == std::string::npos) {
    remark.advice = "declare '" + member + "' in the config, or redefine the code that reads it";
  } else if (const std::string type = quoted_after(message, "no matching constructor for initialization of ");
             !type.empty()) {
    remark.advice = "give '" + std::string(unqualified(type)) +
                    "' a constructor with these parameters, or redefine the code that constructs it";
  } else if (message == "no viable overloaded '='") {
    const std::string name = name_before(parsed.sources[remark.where.file].text, remark.where.begin);
    if (name.empty()) return;
    remark.message = "'" + name + "' cannot hold the value that is assigned to it";
    remark.advice = "if this class gives an inherited member another type, redeclare it: 'TYPE " + name + "{nullptr};'";
    remark.notes.clear();
  } else if (message.starts_with("calling a private constructor") ||
             message.starts_with("calling a protected constructor")) {
    remark.advice = "write 'public:' above that constructor";
  }
}

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
  std::ranges::stable_sort(parsed.remarks, [](const Remark& a, const Remark& b) {
    return std::tie(a.where.file, a.where.begin) < std::tie(b.where.file, b.where.begin);
  });
  const auto is_family = [&](const std::string& name) {
    return !name.empty() && find_spec(folders.root, folders.shipped, name);
  };
  std::vector<Diagnostic> diagnostics;
  for (Remark& remark : parsed.remarks) {
    advise(remark, parsed, is_family);
    diagnostics.push_back(to_diagnostic(parsed, remark, jobs));
  }
  return diagnostics;
}

}  // namespace modgen
