// Serializes the result of generate() for another process.
#pragma once

#include <string>
#include <string_view>

#include "generator/generate.h"

namespace modgen {

/// Everything except the models and outlines of outputs.
std::string to_bytes(const GenerateResult& result);
GenerateResult result_from(std::string_view bytes);

}  // namespace modgen
