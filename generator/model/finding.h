// Errors and warnings of the stages after flatten.
#pragma once

#include <string>
#include <vector>

#include "generator/source/span.h"

namespace modgen {

/// An error or warning at a position in the flattened text; generate() maps it to the spec that the text comes from.
struct Finding {
  bool is_error = true;
  SourceSpan where;
  std::string message;
  std::string advice;
  std::vector<Finding> notes;
};

/// Adds an error unless it has already been reported.
void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice);

}  // namespace modgen
