// Tests over several processes.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/mesh/environment.h"

namespace modular::testing {

/// What a rank hands back to the test: numbers that it compares.
using Report = std::vector<double>;

struct RankOptions {
  std::chrono::seconds timeout = std::chrono::seconds(120);
};

namespace detail {
std::vector<Report> run_ranks(int ranks, const std::function<Report(const Environment&)>& body,
                              const RankOptions& options);
}

/// Runs `body(environment)` in `ranks` new processes and returns their reports, by rank (empty ones where `body`
/// returns nothing). The processes are copies of this test program as it was before its first test, and run this one
/// test, so they see only what the test's own code makes before this call, and no thread or lock of the parent. An
/// expectation that fails in a rank, an exception, a death by signal, and a rank that is not done in time fail the
/// test; the message names the rank and holds its output, and for one that hangs its stack and what it waited for. A
/// test may call this several times; what follows the last call runs in the parent only.
template <class Body>
std::vector<Report> run_ranks(int ranks, const Body& body, const RankOptions& options = {}) {
  if constexpr (std::is_void_v<std::invoke_result_t<const Body&, const Environment&>>) {
    return detail::run_ranks(
        ranks,
        [&](const Environment& environment) {
          body(environment);
          return Report();
        },
        options);
  } else {
    return detail::run_ranks(ranks, body, options);
  }
}

/// A folder of the running test, shared by its ranks, removed when the test program ends.
std::string shared_folder();

}  // namespace modular::testing
