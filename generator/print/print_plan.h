// Writes plans as C++, JSON and text.
#pragma once

#include <string>

#include "generator/model/family_model.h"

namespace modgen {

/// The definition of a plan, formatted like clang-format if its lines fit, and the registration of its entry.
struct PlanSource {
  std::string plan, registration;
};

/// The C++ source of a plan in the generated file.
PlanSource plan_source(const FamilyModel& family, const EntryPlan& plan);

/// All plans of the family as one JSON object keyed by entry, indented by two spaces, with a final newline.
std::string plan_json(const FamilyModel& family);

/// Text that counts the operations of each entry that shard types prove, and lists those that rest on assumptions.
std::string proof_text(const FamilyModel& family);

}  // namespace modgen
