// What to write instead, for errors that Clang finds.
#pragma once

#include <functional>
#include <string>

#include "generator/source/parsed.h"

namespace modgen {

/// Adds advice to a remark of Clang's where it is known, and says plainly what causes it. `is_family` tells whether
/// a spec of that name exists.
void advise(Remark& remark, const Parsed& parsed, const std::function<bool(const std::string&)>& is_family);

}  // namespace modgen
