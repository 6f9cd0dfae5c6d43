// Plans as C++, as JSON and as lines to read.
#pragma once

#include <string>

#include "generator/model/family_model.h"

namespace modgen {

/// The definition of a plan, laid out as clang-format would where its lines fit, and its entry's registration.
struct PlanSource {
  std::string plan, registration;
};

/// As they are written in a generated file.
PlanSource plan_source(const FamilyModel& family, const EntryPlan& plan);

/// All plans of the family as one JSON object by entry, two spaces a level, ending in a new line.
std::string plan_json(const FamilyModel& family);

/// What shard types prove of each entry and what they take on trust, in lines.
std::string proof_text(const FamilyModel& family);

}  // namespace modgen
