// Readings of the entries other than the one of tensor parallelism: methods are interpreted again for what
// data-parallel ranks, or the forwards of a generation, have only a part of.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// Checks that what each entry of `family` computes for a row of the batch does not depend on which other rows the
/// batch has, except through functions of the contract that are made for that, and that losses and counts are sums over
/// rows.
/// What keeps context-parallel ranks from dividing the sequences of an entry is noted in its plan.
/// Entries that look along the sequence other than through functions that know the cache of generation are marked in
/// their plans, with a warning. Called after weave() without errors.
std::vector<Finding> check_readings(FamilyModel& family);

}  // namespace modgen
