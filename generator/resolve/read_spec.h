// Reads the declarations of one spec.
#pragma once

#include "generator/resolve/specs.h"

namespace modgen {

/// Fills `spec`, whose name and file are set, and adds its symbols to `specs`. Errors are added to the remarks of the
/// parse.
void read_spec(Specs& specs, Spec& spec);

}  // namespace modgen
