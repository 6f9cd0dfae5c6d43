// Names whose meaning would change when text moves into another scope.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "generator/source/span.h"

namespace modgen {

class Family;

/// A word in `where`, code of a spec, that names a function, constant or type there and is in `hidden`; nullopt if no
/// word does. Members of `this` do not count, because they can be written this->name; neither do the code's own
/// variables.
std::optional<std::string> captured_name(const Family& family, SourceSpan where, const std::set<std::string>& hidden);

/// The identifiers in `where`.
std::set<std::string> words_in(const Family& family, SourceSpan where);

bool meet(const std::set<std::string>& one, const std::set<std::string>& other);

}  // namespace modgen
