// Where a pipeline cuts a model: the loop over the PP_SPLIT list, the one value that it carries, what feeds that value,
// and what reads its result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generator/module_tree.h"
#include "generator/stages.h"

namespace modgen {

/// A walk over a PP_SPLIT list in a method's body. Indices count the body's statements.
struct Walk {
  const Field* list = nullptr;
  size_t loop = 0;           // the range-for
  std::string carried;       // the variable that the loop carries from element to element
  std::vector<size_t> feed;  // the statements that only serve to make the carried value before the loop; adjacent
  std::optional<size_t>
      cut;  // the first statement that reads the loop's result; none where it is only returned as it is
};

/// The PP_SPLIT list that an expression names, itself or in a module that it holds; null where it names something else.
using FindSplitList = std::function<const Field*(const Expr& range)>;

/// Finds the walk in `method`; nothing where it has none. A walk that cannot be cut is added to `findings`.
std::optional<Walk> find_walk(const FindSplitList& split_list, const Function& method, std::vector<Finding>& findings);

/// Whether `statement` reads or assigns the local variable.
bool mentions(const Stmt& statement, const std::string& variable);

}  // namespace modgen
