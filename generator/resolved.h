// The folders of a run.
#pragma once

#include "generator/generate.h"
#include "generator/source/parsed.h"

namespace modgen {

/// The folders in `options`, or their defaults, as absolute paths. Throws like generate().
ParseOptions resolved(const GenerateOptions& options);

}  // namespace modgen
