#include "generator/model/finding.h"

#include <algorithm>
#include <utility>

namespace modgen {

void report(std::vector<Finding>& findings, SourceSpan where, std::string message, std::string advice) {
  const bool known = std::any_of(findings.begin(), findings.end(),
                                 [&](const Finding& f) { return f.where == where && f.message == message; });
  if (!known) findings.push_back({true, where, std::move(message), std::move(advice), {}});
}

}  // namespace modgen
