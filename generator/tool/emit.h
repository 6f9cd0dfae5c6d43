// Output of `modgen --emit`: descriptions of families as JSON, Graphviz dot or text.
#pragma once

#include <string>

#include "generator/generate.h"

namespace modgen {

enum class Emit { nothing, deps, plan, layout };
enum class EmitFormat { json, dot, text };

/// Describes the families of `result`, which has no errors and keeps its models. Throws std::runtime_error if that
/// format is not supported.
std::string describe(const GenerateResult& result, Emit what, EmitFormat format);

}  // namespace modgen
