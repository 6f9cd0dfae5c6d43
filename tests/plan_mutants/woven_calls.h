// The calls that modgen has woven into a generated file.
#pragma once

#include <string>
#include <vector>

#include "tests/generator/text_changes.h"

namespace modgen {

struct WovenCall {
  std::string name;  // "llama.h:97:17 tp::enter", with line and column
  int line;
  std::vector<Change> leaving_out;  // edits that remove the call, as if the author had forgotten it
  std::vector<Change> switching;    // edits that replace the call with one of woven.h
};

/// Every call in the text of generated/<family>.h that tensor-parallel ranks or stages need, in order. Each read of a
/// variable that holds the result of tp::enter counts as a call.
std::vector<WovenCall> woven_calls(const std::string& family, const std::string& text);

}  // namespace modgen
