// Where the value of several uses can be computed once, in a statement before them.
#pragma once

#include <utility>
#include <vector>

#include "generator/model/body.h"

namespace modgen {

/// The innermost statement list that contains all of `uses`, and the index of its first statement that contains one.
std::pair<const std::vector<Stmt>*, size_t> common_block(const std::vector<Stmt>& statements,
                                                         const std::vector<const Expr*>& uses);

/// Whether the value that `uses` read, all from one variable, can be computed in a statement before statement `index`.
bool can_hoist_before(const std::vector<Stmt>& block, size_t index, const std::vector<const Expr*>& uses);

/// Whether `use` is in a lambda of the statement, which may run several times.
bool is_in_lambda(const Stmt& statement, const Expr& use);

}  // namespace modgen
