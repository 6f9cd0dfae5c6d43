// The prefixes that inherited classes get in a family, and what the family declares in their place.
#pragma once

#include <string>

#include "generator/resolve/specs.h"

namespace modgen {

/// The prefix that inherited classes of family `base` get where code of `symbol` reaches them: what `symbol` puts in
/// the place of its own base's prefix ("LlavaVision" in LlavaVisionEncoder : CLIPEncoder), or else the one that its
/// family's classes agree on, or the family's own. A prefix that one class alone has beside others with the family's
/// own says nothing.
std::string prefix_given(const Symbol& symbol, const Spec& base);
/// As above, for code of `family` that belongs to no class.
std::string prefix_given(const Spec& family, const Spec& base);

/// What `family` declares in the place of `symbol`, a symbol of a family that it inherits from, reached where inherited
/// classes get `prefix`; null where it declares nothing.
Symbol* covering(const Spec& family, const Symbol& symbol, const std::string& prefix);

/// `family`'s names with another class prefix.
Names names_with(const Spec& family, std::string prefix);

}  // namespace modgen
