// Finds where a pipeline cuts a model: at the loop over the PP_SPLIT list, and between two stacks. Determines the value
// that crosses the cut, the statements that compute it, and the statements that read its result.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/weave/module_tree.h"

namespace modgen {

/// A cut in a method's body: a loop over a PP_SPLIT list, or the end of the first stack. Indices are into the body's
/// statements.
struct Traversal {
  const Field* list = nullptr;  // the PP_SPLIT list; null between stacks
  const Field* stack =
      nullptr;                // between stacks: a member that computes the carried value; null for a loop over a list
  size_t loop = 0;            // the range-for over the list
  std::string carried;        // the variable that the loop carries from element to element, or that crosses the cut
  uint32_t variable = 0;      // its number
  std::vector<size_t> feed;   // adjacent statements that only compute the carried value
  std::optional<size_t> cut;  // the first statement that reads the loop's result, or none if the result is only
                              // returned; between stacks: the statement after the feed
};

/// Reads, by one statement and the methods that it calls, of modules that only the first or only the last stage holds.
struct StageReads {
  struct Read {
    const Expr* at = nullptr;          // the expression that reads; null if there is no read
    const ModuleNode* node = nullptr;  // the module that is read
    const Field* marked = nullptr;     // the PP_FIRST or PP_LAST field: the module's own or an ancestor's
  };
  Read first, last;
  bool is_cut = false;  // whether it calls a method that is cut
};

/// The two layer stacks of an entry, if pipelines cut between them: a PP_FIRST and a PP_LAST module each contain lists
/// of layers without being lists themselves, and no list outside of them is PP_SPLIT.
struct Stacks {
  bool exist = false;
  std::array<bool, 2> are_split{};  // whether each stack contains a PP_SPLIT list; otherwise it is one stage
};
Stacks find_stacks(const ModuleNode& root);

/// The stages that hold a module or a parameter.
struct StagePosition {
  AnnotationKind kind = AnnotationKind::none;
  size_t stack = 0;               // index of the stack whose stages are meant
  const Field* marked = nullptr;  // the field whose annotation decides
  const Field* in = nullptr;      // the outermost annotated field: with two stacks, the member that belongs to one
};
/// The outermost annotation decides. Within a stack that is cut, the outermost annotation inside the stack decides;
/// other modules that are marked for a stack are held by its last stage.
StagePosition find_stage_position(const ModuleNode& node, const Stacks& stacks);
/// Whether `node` is a list that is divided into stages. A list inside its elements is not.
bool is_split_list(const ModuleNode& node, const Stacks& stacks);

/// Returns the PP_SPLIT list that an expression names, directly or in a submodule; null if it names something else.
using FindSplitList = std::function<const Field*(const Expr& range)>;

/// Finds the loop over a split list in `method`; empty if it has none. A loop that cannot be cut is reported in
/// `findings`.
std::optional<Traversal> find_traversal(const FindSplitList& split_list, const Function& method,
                                        std::vector<Finding>& findings);

/// Finds the cut between stacks in `method`, given the reads of its statements that were interpreted; empty if the
/// method itself is not cut. Code that two stages cannot run is reported in `findings`.
std::optional<Traversal> find_cut(const Function& method, const std::vector<StageReads>& reads,
                                  std::vector<Finding>& findings);

/// Whether `statement` reads or assigns the local variable number `variable`.
bool mentions(const Stmt& statement, uint32_t variable);

}  // namespace modgen
