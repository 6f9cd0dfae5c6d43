// Translation validation: a flattened text, parsed again, is held against the specs that it was made from, syntax tree
// against syntax tree. Nothing of how the text was made is used but where its declarations come from. After the idea of
// Pnueli, Siegel and Singerman (1998) and of Alive2: a translation is checked each time that it is made.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "generator/source/fragment.h"

namespace modgen {

class Family;

/// How many expressions of a flattened family were held against the specs.
struct Validation {
  size_t expressions = 0;      // name what the specs' expressions name, of the same type, converted in the same way
  size_t by_redefinition = 0;  // of these, those whose type follows what the family redefines
  std::map<std::string, size_t> skipped;  // those that were not, by the reason
};

/// The counts in a sentence, for people.
std::string to_text(const Validation& validation);

/// Holds what `family` became, the text at index `file` that `text` is, against its specs. What differs is an error at
/// its place in that text, added to the remarks of the parse.
Validation validate(const Family& family, const Fragment& text, uint32_t file);

}  // namespace modgen
