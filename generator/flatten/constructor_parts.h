// Parts of an inlined constructor in C++'s order of execution, and an order in which one constructor can run them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/flatten/side_effects.h"
#include "generator/source/fragment.h"

namespace modgen {

/// Text is rendered only once it is known to stay, because rendering adds the entities that it names to the family.
using Later = std::function<Fragment()>;

struct Part {
  enum class Kind {
    library_base,  // initializer of a base class from a library
    initializer,   // initializer of a field
    implicit,      // default member initializer; has no text here
    statement,
  };
  Kind kind = Kind::statement;
  Later text;              // initializer: `field(value)`; statement: with its semicolon
  Later comment;           // comment above it
  Later assignment;        // an initializer as a statement; null if it cannot be one
  std::string obstacle;    // advice if it cannot
  std::string field;       // field that it sets; empty if it sets none or several
  std::string registered;  // name that it registers
  SideEffects effects;     // includes the field that it sets
  SourceSpan where;
  size_t level = 0;
};

/// Two parts that would have to swap, but do not commute.
struct Misplaced {
  Part part, other;
};

/// `parts` as initializers, in the order of `rank`, and statements. An initializer that depends on an earlier statement
/// becomes a statement; if it cannot, both are reported in `misplaced`.
struct Arranged {
  std::vector<Part> initializers, statements;
  std::vector<Misplaced> misplaced;
};
Arranged arranged(std::vector<Part> parts, const std::function<size_t(const Part&)>& rank);

}  // namespace modgen
