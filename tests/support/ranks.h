// Tests over several processes.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/mesh/environment.h"

namespace modular::testing {

/// Numbers that a rank returns to the test.
using Report = std::vector<double>;

inline constexpr std::chrono::seconds kRankTimeout{120};

namespace detail {
std::vector<Report> run_ranks(int ranks, const std::function<Report(const Environment&)>& body,
                              std::chrono::seconds timeout);
}

/// Runs `body(environment)` in `ranks` new processes and returns their reports, by rank (empty ones where `body`
/// returns nothing). The processes are copies of this test program as it was before its first test, and run this one
/// test, so they see only what the test's own code makes before this call, and no thread or lock of the parent. An
/// expectation that fails in a rank, an exception, a death by signal, and a rank that is not done in time fail the
/// test; the message names the rank and holds its output, and for one that hangs its stack and what it waited for. A
/// test may call this several times; what follows the last call runs in the parent only.
template <class Body>
std::vector<Report> run_ranks(int ranks, const Body& body, std::chrono::seconds timeout = kRankTimeout) {
  if constexpr (std::is_void_v<std::invoke_result_t<const Body&, const Environment&>>) {
    return detail::run_ranks(
        ranks,
        [&](const Environment& environment) {
          body(environment);
          return Report();
        },
        timeout);
  } else {
    return detail::run_ranks(ranks, body, timeout);
  }
}

/// A folder of the running test, shared by its ranks, removed when the test program ends.
std::string shared_folder();

}  // namespace modular::testing
