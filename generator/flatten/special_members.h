// Copies, comparisons and destructors of a base.
#pragma once

namespace modgen {

class Family;
struct Entity;

/// Rejects members of a base for which C++ treats the base's part of an object separately, unless the flattened class
/// does the same: copies and comparisons of that part alone, and a destructor that runs after the derived class's.
void check_special_members(const Family& family, const Entity& entity);

}  // namespace modgen
