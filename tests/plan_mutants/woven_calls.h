// The calls that modgen has woven into a generated file.
#pragma once

#include <string>
#include <vector>

#include "tests/generator/text_changes.h"

namespace modgen {

struct WovenCall {
  std::string name;  // "llama.h:97:17 tp::enter": the line, the column
  int line;
  std::vector<Change> leaving_out;  // what makes the file that of an author who forgot the call
  std::vector<Change> switching;    // what makes the call one of woven.h
};

/// Every call in the text of generated/<family>.h that tensor-parallel ranks or stages need, in its order. A variable
/// that holds what tp::enter gave is one more where a layer reads it.
std::vector<WovenCall> woven_calls(const std::string& family, const std::string& text);

}  // namespace modgen
