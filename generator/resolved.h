// The folders of a run.
#pragma once

#include "generator/generate.h"
#include "generator/source/parsed.h"

namespace modgen {

/// The folders that `options` name or leave to be found, absolute. Throws as generate() does.
ParseOptions resolved(const GenerateOptions& options);

}  // namespace modgen
