// Modules that modgen rejects, woven all the same: to see which of them would have computed the same.
#pragma once

#include "generator/model/family_model.h"
#include "generator/weave/shard_types.h"

namespace modgen {

/// What an operation that a rule rejects is taken to give: something of the type of its first operand that differs
/// between ranks, or a part of a sum, which is summed before the next operation that needs it. Of whole operands it is
/// whole.
enum class Guess { none, same, partial };

/// From now on what rules reject is guessed.
void guess_types(Guess guess);
bool guesses();

/// The guess for an operation that was rejected.
Value guessed(Operation& op);

/// Places the calls and derives the plans that the types ask for as far as they are known, whatever is wrong.
void weave_regardless(FamilyModel& family);

}  // namespace modgen
