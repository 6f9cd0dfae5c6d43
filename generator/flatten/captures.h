// Names that would mean something else where text is written into another scope.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "generator/source/span.h"

namespace modgen {

class Family;

/// A word in `where`, code of a spec, that names a function, constant or type there and is one of `hidden`; nullopt
/// where there is none. Members of `this` do not count, as they can be written this->name, nor do the code's variables.
std::optional<std::string> captured_name(const Family& family, SourceSpan where, const std::set<std::string>& hidden);

/// The identifiers in `where`.
std::set<std::string> words_in(const Family& family, SourceSpan where);

bool meet(const std::set<std::string>& one, const std::set<std::string>& other);

}  // namespace modgen
