// The stages after flatten, as generate() calls them for each family.
#pragma once

#include <string>
#include <vector>

#include "generator/family_model.h"

namespace clang {
class FunctionDecl;
}

namespace modgen {

/// What a stage has to say about a place in the flattened text; generate() moves it to the spec that the text came
/// from.
struct Finding {
  bool is_error = true;
  SourceSpan where;
  std::string message;
  std::string advice;
  std::vector<Finding> notes;
};

/// The body of `function`, whose definition lies in one file. Spans are offsets into that file and name it `file`.
/// (read_body.cc)
Body read_body(const clang::FunctionDecl& function, uint32_t file);

/// Constructors that read a tensor's value.  (constructor_checks.cc)
std::vector<Finding> check_constructors(const FamilyModel& family);

/// Places the parallel calls as edits of `family`, checks its shard types and derives the plan of every entry.
/// (weave.cc)
std::vector<Finding> weave(FamilyModel& family);

/// The definition of a plan, laid out as clang-format would where its lines fit, and its entry's registration.
struct PlanSource {
  std::string plan, registration;
};

/// As they stand in a generated file.  (print_plan.cc)
PlanSource plan_source(const FamilyModel& family, const EntryPlan& plan);

/// All plans of the family as one JSON object by entry, two spaces a level, ending in a new line.  (print_plan.cc)
std::string plan_json(const FamilyModel& family);

/// What shard types prove of each entry and what they take on trust, in lines.  (print_plan.cc)
std::string proof_text(const FamilyModel& family);

}  // namespace modgen
