// Errors and warnings of the stages after flatten.
#pragma once

#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// An error or a warning about a place in the flattened text; generate() moves it to the spec that the text came
/// from.
struct Finding {
  bool is_error = true;
  SourceSpan where;
  std::string message;
  std::string advice;
  std::vector<Finding> notes;
};

/// Adds an error, unless it has been reported already.
void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice);

}  // namespace modgen
