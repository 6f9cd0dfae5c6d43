// Changes to a text that are told by its offsets.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "generator/model/family_model.h"

namespace modgen {

struct Change {
  SourceSpan where;
  std::string text;
};

/// `text` with the changes.
inline std::string changed(std::string text, std::vector<Change> changes) {
  std::ranges::stable_sort(changes, std::greater(), [](const Change& change) { return change.where.begin; });
  for (const Change& change : changes)
    text.replace(change.where.begin, change.where.end - change.where.begin, change.text);
  return text;
}

}  // namespace modgen
