// Weaves modules that modgen rejects, to find those that would compute the same.
#pragma once

#include "generator/model/family_model.h"
#include "generator/weave/shard_types.h"

namespace modgen {

/// The assumed result of an operation that a rule rejects: the type of its first operand that differs between ranks
/// (same), or a partial sum that is summed before the next operation that needs it (partial). Full operands give a full
/// result.
enum class Guess { none, same, partial };

/// Sets the guess for operations that rules reject.
void guess_types(Guess guess);
bool guesses();

/// The assumed result of a rejected operation.
Value guessed(Operation& op);

/// Inserts the calls and derives the plans that the known types require, regardless of errors.
void weave_regardless(FamilyModel& family);

}  // namespace modgen
