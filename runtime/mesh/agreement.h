// Checks that all ranks of a job agree on their config before any of them creates a process group.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/environment.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Resolved config keys and values, in the order in which differences are reported: "optim.lr", "0.001".
using ResolvedConfig = std::vector<std::pair<std::string, std::string>>;

/// Blocks until all ranks of the job have called it with equal `config`. Returns the part of the job's store in which
/// these ranks form the process groups of one mesh. The n-th call of each rank meets the n-th call of the others. On
/// failure it throws std::runtime_error on all ranks. The message names the first key that differs, both values, and
/// their ranks and machines; or gives the reason why a rank was rejected (report_rejected_rank); or names the ranks
/// that have not arrived within `timeout`.
Store agree(const Store& job, const Environment& environment, const ResolvedConfig& config,
            std::chrono::milliseconds timeout);

/// Reports to the ranks that wait in agree() why this rank does not take part. If this rank would host the store, it
/// hosts it for some seconds, until the others have read the report.
void report_rejected_rank(const Environment& environment, const std::string& why);

/// Host name of this machine.
std::string host_name();

}  // namespace modular
