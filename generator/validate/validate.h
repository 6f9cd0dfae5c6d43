// Translation validation: compares a flattened text, parsed again, with its specs, syntax tree against syntax tree. Of
// the flattening itself, it only uses the origins of declarations. Follows Pnueli, Siegel and Singerman (1998) and
// Alive2: every translation is checked when it is made.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "generator/source/fragment.h"

namespace modgen {

class Family;

/// Number of expressions of a flattened family that were compared with the specs.
struct Validation {
  // Refer to the same declarations as the specs' expressions, with the same types and conversions.
  size_t expressions = 0;
  size_t by_redefinition = 0;             // of these, those whose type follows a redefinition
  std::map<std::string, size_t> skipped;  // number of others, by reason
};

/// The counts in a sentence, for the user.
std::string to_text(const Validation& validation);

/// Compares the flattened `family`, the text `text` at index `file`, with its specs. Differences are errors at their
/// location in that text, added to the remarks of the parse.
Validation validate(const Family& family, const Fragment& text, uint32_t file);

}  // namespace modgen
