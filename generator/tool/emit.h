// What `modgen --emit` prints: descriptions of families for other programs (JSON) and for people (Graphviz's dot).
#pragma once

#include <string>

#include "generator/generate.h"

namespace modgen {

enum class Emit { nothing, deps, plan, layout };
enum class EmitFormat { json, dot, text };

/// Describes the families of `result`, which holds no error and keeps its models. Throws std::runtime_error where it
/// cannot be described in that format.
std::string describe(const GenerateResult& result, Emit what, EmitFormat format);

}  // namespace modgen
