// Results of a method's call: its value, the cut between stacks, and the calls to insert.
#include <algorithm>

#include "generator/weave/interpreter.h"

namespace modgen {

bool runs_unit(const Frame& frame, const ModuleNode& root) {
  return frame.self && frame.function->name == "forward" &&
         (frame.self == &root ||
          (frame.self->type && find_annotation(frame.self->type->annotations, AnnotationKind::fsdp_unit)));
}

Value Interpreter::join_results(const Frame& frame) {
  Value result;
  for (const Value& value : frame.results) result = join(result, value);
  if (runs_unit(frame, root_)) set_storage(result, Storage());
  if (result.kind == Value::Kind::mismatch)
    return fail(frame.function->where, frame.function->name + " returns a value that is " + result.text,
                "return values that are split the same way");
  return result;
}

std::optional<Traversal> Interpreter::cut_between_stacks(Frame& frame, Frame* caller, const Expr* at) {
  std::vector<Finding> cut_findings;
  std::optional<Traversal> traversal = find_cut(*frame.function, frame.reads, cut_findings);
  for (Finding& finding : cut_findings) report(finding.where, finding.message, finding.advice);
  const bool is_cut =
      std::any_of(frame.reads.begin(), frame.reads.end(), [](const auto& reads) { return reads.is_cut; });
  if (caller && (traversal || is_cut)) caller->reading.is_cut = true;
  if (traversal) {
    frame.crossing = frame.fed[traversal->variable].value;
    // The check after the first stack tests whether this stage runs the second one, which also covers stages in the
    // middle of the first.
    const Stmt* const last_feed = &frame.function->body.statements[traversal->feed.back()];
    std::erase_if(frame.pass_ons, [&](const PassOn& pass_on) {
      return pass_on.statement == last_feed && pass_on.carried == traversal->carried;
    });
  }
  if (traversal || is_cut || !cut_findings.empty() || !caller) return traversal;
  for (const StageReads& reads : frame.reads)
    for (const auto part : {&StageReads::first, &StageReads::last})
      if ((reads.*part).at && !(caller->reading.*part).at)
        caller->reading.*part = {at, (reads.*part).node, (reads.*part).marked};
  return traversal;
}

void Interpreter::merge_findings(Frame& frame, MethodFindings& found, bool first_time, const Expr* at) {
  std::vector<Placement> placements;
  for (auto& [expr, list] : frame.placements) placements.insert(placements.end(), list.begin(), list.end());
  std::stable_sort(placements.begin(), placements.end(), [](const Placement& a, const Placement& b) {
    return a.expr->span.begin != b.expr->span.begin ? a.expr->span.begin < b.expr->span.begin
                                                    : a.expr->span.end > b.expr->span.end;
  });
  if (frame.function->is_instance && !placements.empty()) {
    fail(placements.front().expr->span, "a parallel call would have to be inserted in a template",
         "write " + frame.function->name + " as a separate method or function for these types");
    return;
  }
  if (frame.function->is_inner && !placements.empty()) {
    fail(placements.front().expr->span,
         "a parallel call would have to be inserted in a friend, in an inner class, or in a method that follows its "
         "class because each needs the other",
         "declare " + frame.function->name + ", or its class, outside of other classes and functions");
    return;
  }
  const auto same_calls = [](const std::vector<Placement>& a, const std::vector<Placement>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Placement& one, const Placement& other) {
      return one.call == other.call && one.expr == other.expr;
    });
  };
  if (!first_time) {
    if (same_calls(placements, found.placements) || (found.on_shards && same_calls(placements, *found.on_shards)))
      return;
    const bool can_add_overload = frame.self && !runs_unit(frame, root_) && frame.pass_ons.empty() &&
                                  !found.traversal && !found.cut && !found.on_shards &&
                                  placements.empty() != found.placements.empty();
    if (!can_add_overload) {
      if (!findings_.empty()) return;  // findings before an error are incomplete
      fail(
          at ? at->span : frame.function->where,
          frame.function->name +
              " is called with values that are split over tp here, and with other values elsewhere: its parallel calls "
              "would differ",
          "use a separate class for one of the two");
      return;
    }
    const std::string overload = frame.function->name + "_on_shards";
    const auto& methods = frame.self->type->functions;
    if (const auto taken = std::ranges::find(methods, overload, &Function::name); taken != methods.end()) {
      fail(
          taken->where,
          overload + " is the name of the overload of " + frame.function->name + " for split values, which modgen adds",
          "rename it");
      return;
    }
    found.on_shards = placements.empty() ? std::exchange(found.placements, {}) : std::move(placements);
    return;
  }
  if (frame.self) found.owner = frame.self->type;
  found.placements = std::move(placements);
  found.pass_ons = frame.pass_ons;
}

}  // namespace modgen
