// What an unravelled constructor does, in C++'s order, and in which order one constructor can do it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/flatten/side_effects.h"
#include "generator/source/fragment.h"

namespace modgen {

/// Text is made when it is known to stay: what it names is then needed.
using Later = std::function<Fragment()>;

struct Part {
  enum class Kind {
    library_base,  // the initializer of a base class that is no spec's
    initializer,   // of a field
    implicit,      // a field's initializer where it is declared; has no text here
    statement,
  };
  Kind kind = Kind::statement;
  Later text;              // of an initializer: `field(value)`; of a statement: with its semicolon
  Later comment;           // above it
  Later assignment;        // of an initializer: the same as a statement; null where it cannot be one
  std::string obstacle;    // why it cannot
  std::string field;       // that it sets; empty where it sets none or several
  std::string registered;  // the name that it registers
  SideEffects effects;     // with what it sets
  SourceSpan where;
  size_t level = 0;
};

/// Two parts that would have to change places and must not.
struct Misplaced {
  Part part, other;
};

/// `parts` as initializers, in the order of `rank`, and statements. An initializer that has to see what an earlier
/// statement did becomes a statement itself; where that cannot be, both are told.
struct Arranged {
  std::vector<Part> initializers, statements;
  std::vector<Misplaced> misplaced;
};
Arranged arranged(std::vector<Part> parts, const std::function<size_t(const Part&)>& rank);

}  // namespace modgen
