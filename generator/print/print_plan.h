// Writes plans as C++, JSON and text. The generated file states the rows that entries share once, and per entry the
// rows that its head adds.
#pragma once

#include <string>
#include <vector>

#include "generator/model/family_model.h"

namespace modgen {

/// A plan as another plan, whose names become relative to `path`, followed by `rows`.
struct PlanStatement {
  const EntryPlan* base = nullptr;  // a member plan, or the plan of an earlier entry; null: the plan is stated in full
  std::string path;                 // the entry's member that is of the base's class; empty: the entry itself
  EntryPlan rows;                   // at most one stack, without a list
};

/// How to state the plan of each entry of the family. `base` points into `family`.
std::vector<PlanStatement> state_plans(const FamilyModel& family);

/// Text of an entry in the generated file.
struct PlanSource {
  std::string table;  // the table of rows that the entry's plan starts with, if no entry before it has stated it;
                      // formatted like clang-format if its lines fit
  std::string registration;  // the rows that the entry adds, and its registration; not formatted
};

/// The C++ source of the plans of all entries, in order.
std::vector<PlanSource> plan_sources(const FamilyModel& family);

/// All plans of the family as one JSON object keyed by entry, indented by two spaces, with a final newline.
std::string plan_json(const FamilyModel& family);

/// Text that counts the operations of each entry that shard types prove, and lists those that rest on assumptions.
std::string proof_text(const FamilyModel& family);

}  // namespace modgen
