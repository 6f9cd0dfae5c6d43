// What a stage behind flatten has to say.
#pragma once

#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// What a stage has to say about a place in the flattened text; generate() moves it to the spec that the text came
/// from.
struct Finding {
  bool is_error = true;
  SourceSpan where;
  std::string message;
  std::string advice;
  std::vector<Finding> notes;
};

}  // namespace modgen
