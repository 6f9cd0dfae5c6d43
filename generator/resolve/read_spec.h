// What one spec declares.
#pragma once

#include "generator/resolve/specs.h"

namespace modgen {

/// Fills `spec`, of which the name and the file are known, and adds its symbols to `specs`. What it rejects is added to
/// the remarks of the parse.
void read_spec(Specs& specs, Spec& spec);

}  // namespace modgen
