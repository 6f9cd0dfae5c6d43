#include "generator/flatten/constructor.h"

#include <algorithm>

#include "generator/flatten/operands.h"

namespace modgen {
namespace {

Part as_statement(Part part) {
  part.kind = Part::Kind::statement;
  part.text = [assignment = part.assignment, comment = part.comment] {
    Fragment text = comment ? comment() : Fragment();
    if (!text.empty()) text.add(std::string("\n"));
    text.append(assignment());
    return text;
  };
  part.comment = nullptr;
  return part;
}

/// Whether the initializer cannot be an assignment after the statement, which reads the field, as a virtual method that
/// a base's body calls does, or declares a name that the initializer has for something else.
bool needs_before(const Part& statement, const Part& initializer) {
  return statement.effects.reads.contains(initializer.field) || meet(statement.effects.declared, initializer.words);
}

}  // namespace

Arranged arranged(std::vector<Part> parts, const std::function<size_t(const Part&)>& rank) {
  Arranged result;
  for (Part& part : parts) {
    if (part.kind == Part::Kind::statement) {
      result.statements.push_back(std::move(part));
      continue;
    }
    const auto before = std::find_if(result.statements.begin(), result.statements.end(),
                                     [&](const Part& statement) { return !commute(statement.effects, part.effects); });
    const auto hides = std::find_if(result.statements.begin(), result.statements.end(),
                                    [&](const Part& statement) { return needs_before(statement, part); });
    if (before == result.statements.end()) {
      if (part.kind != Part::Kind::implicit) result.initializers.push_back(std::move(part));
    } else if (part.assignment && hides == result.statements.end()) {
      if (part.kind == Part::Kind::implicit) result.deferred.insert(part.field);
      result.statements.push_back(as_statement(std::move(part)));
    } else {
      result.misplaced.push_back({part, part.assignment ? *hides : *before});
    }
  }
  // C++ runs initializers in the order of the fields.
  for (size_t later = 1; later < result.initializers.size(); ++later) {
    Part& part = result.initializers[later];
    const auto clash = std::find_if(
        result.initializers.begin(), result.initializers.begin() + static_cast<long>(later),
        [&](const Part& earlier) { return rank(earlier) > rank(part) && !commute(earlier.effects, part.effects); });
    if (clash == result.initializers.begin() + static_cast<long>(later)) continue;
    if (!part.assignment) {
      result.misplaced.push_back({part, *clash});
      continue;
    }
    result.statements.insert(result.statements.begin(), as_statement(part));
    result.initializers.erase(result.initializers.begin() + static_cast<long>(later--));
  }
  std::stable_sort(result.initializers.begin(), result.initializers.end(),
                   [&](const Part& a, const Part& b) { return rank(a) < rank(b); });
  return result;
}

}  // namespace modgen
