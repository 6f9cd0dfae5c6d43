// Tiny sizes of every family, for tests that train all of them.
#pragma once

#include <string_view>

#include "tests/parallel/training_runs.h"

namespace modular::testing {

/// Sizes that two and four ranks divide, with dropout of every kind that the family has.
Fields fields_of(std::string_view family);

}  // namespace modular::testing
