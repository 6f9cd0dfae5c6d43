// Readings of the entries other than the one of tensor parallelism: methods are interpreted again for what
// data-parallel ranks, or the forwards of a generation, have only a part of.
#pragma once

#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"
#include "generator/weave/sequence.h"

namespace modgen {

/// Reads the entries, whose trees have the `roots` and which `plans` are of, for sequence parallelism, given the calls
/// of tensor parallelism. Sets which lists of each entry can run on shares, or why none can. Returns the calls of all
/// entries that can.
SequenceText read_shares(const FamilyModel& family, const std::vector<const ModuleNode*>& roots,
                         const Interpretation& woven, std::vector<EntryPlan>& plans);

/// Checks that what each entry of `family` computes for a row of the batch does not depend on which other rows the
/// batch has, except through functions of the contract that are made for that, and that losses and counts are sums over
/// rows.
/// The plan of an entry says why context-parallel ranks cannot divide its sequences.
/// Entries that look along the sequence other than through functions that know the cache of generation are marked in
/// their plans, with a warning. Called after weave() without errors.
std::vector<Finding> check_readings(FamilyModel& family);

}  // namespace modgen
