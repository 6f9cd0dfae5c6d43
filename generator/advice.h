// Advice for errors that Clang reports.
#pragma once

#include <functional>
#include <string>

#include "generator/source/parsed.h"

namespace modgen {

/// Adds advice to a remark of Clang's if known, and replaces its message by the cause. `is_family` returns whether a
/// spec of that name exists.
void advise(Remark& remark, const Parsed& parsed, const std::function<bool(const std::string&)>& is_family);

}  // namespace modgen
