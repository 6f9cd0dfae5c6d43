// Where a pipeline cuts a model: at the loop over the PP_SPLIT list, and between two towers; the one value that
// crosses, what feeds that value, and what reads its result.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generator/model/finding.h"
#include "generator/weave/module_tree.h"

namespace modgen {

/// Where a method's body is cut: a walk over a PP_SPLIT list, or the end of the first tower. Indices count the body's
/// statements.
struct Traversal {
  const Field* list = nullptr;   // null between towers
  const Field* tower = nullptr;  // between towers a member that makes the carried value; null of a walk over a list
  size_t loop = 0;               // the range-for over the list
  std::string carried;           // the variable that the loop carries from element to element, or that crosses
  uint32_t variable = 0;         // its number
  std::vector<size_t> feed;      // the statements that only serve to make the carried value; adjacent
  std::optional<size_t> cut;  // the first statement that reads the loop's result, or none where it is only returned as
                              // it is; between towers the one after the feed
};

/// What a statement reads of what one of two stages alone holds, itself or in what it calls.
struct StageReads {
  struct Read {
    const Expr* at = nullptr;          // in the statement; null where nothing is read
    const ModuleNode* node = nullptr;  // whose parameter it is
    const Field* marked = nullptr;     // with PP_FIRST or PP_LAST: that one, or what holds it
  };
  Read first, last;
  bool is_cut = false;  // it calls a method that is cut
};

/// Whether pipelines cut an entry between two towers: a PP_FIRST and a PP_LAST module hold lists of layers, without
/// being lists themselves, and no list outside of them is PP_SPLIT.
struct Towers {
  bool exist = false;
  std::array<bool, 2> are_split{};  // whether a list in it is PP_SPLIT; else it is one piece
};
Towers find_stacks(const ModuleNode& root);

/// Which stages hold a module or a parameter.
struct StagePosition {
  std::string kind;               // "pp_first", "pp_split", "pp_last" or "pp_all"; empty where nothing says
  size_t tower = 0;               // of two the one whose stages are meant
  const Field* marked = nullptr;  // what says it
  const Field* in = nullptr;      // the outermost that is marked: between towers what belongs to one of them
};
/// What is marked outside of others decides. In a tower that is cut it is what is marked within the tower; what is
/// marked as a tower's beside that is held by the stage which ends it.
StagePosition find_stage_position(const ModuleNode& node, const Towers& towers);

/// The PP_SPLIT list that an expression names, itself or in a module that it holds; null where it names something else.
using FindSplitList = std::function<const Field*(const Expr& range)>;

/// Finds the walk in `method`; nothing where it has none. A walk that cannot be cut is added to `findings`.
std::optional<Traversal> find_traversal(const FindSplitList& split_list, const Function& method,
                                        std::vector<Finding>& findings);

/// Finds the cut between towers in `method`, whose statements, as far as they were run, read `reads`; nothing where it
/// is not cut itself. What two stages cannot run is added to `findings`.
std::optional<Traversal> find_cut(const Function& method, const std::vector<StageReads>& reads,
                                  std::vector<Finding>& findings);

/// Whether `statement` reads or assigns the local variable.
bool mentions(const Stmt& statement, uint32_t variable);

}  // namespace modgen
