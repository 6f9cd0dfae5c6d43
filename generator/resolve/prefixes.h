// Prefixes of inherited classes in a family, and the family's replacements for them.
#pragma once

#include <string>

#include "generator/resolve/specs.h"

namespace modgen {

/// The prefix of inherited classes of family `base` that code of `symbol` reaches: the one that `symbol` itself puts
/// before its own base's name ("LlavaVision" in LlavaVisionEncoder : CLIPEncoder), otherwise the one that its family's
/// classes agree on, otherwise the family's own. A prefix that only one class has does not count if other classes have
/// the family's own.
std::string prefix_given(const Symbol& symbol, const Spec& base);
/// As above, for code of `family` outside classes.
std::string prefix_given(const Spec& family, const Spec& base);

/// The replacement that `family` declares for `symbol`, a symbol of a family that it inherits from, on a path where
/// inherited classes get `prefix`; null if it declares none.
Symbol* covering(const Spec& family, const Symbol& symbol, const std::string& prefix);

/// `family`'s names with another class prefix.
Names names_with(const Spec& family, std::string prefix);

}  // namespace modgen
