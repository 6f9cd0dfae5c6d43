// What all ranks of a job have to have in common before the first of them opens a process group.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "runtime/mesh/environment.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {

/// Keys and values, in the order in which differences are reported: "optim.lr", "0.001".
using ResolvedConfig = std::vector<std::pair<std::string, std::string>>;

/// Returns once all ranks of the job have called this with equal `settings`: the part of the job's store in which these
/// ranks form the process groups of one mesh. The n-th call of each rank meets the n-th of the others. Throws
/// std::runtime_error on all of them that names the first key that differs, both values, and their ranks and machines;
/// or gives the reason why a rank was rejected (report_rejected_rank); or names the ranks that have not come within
/// `timeout`.
Store agree(const Store& job, const Environment& environment, const ResolvedConfig& settings,
            std::chrono::milliseconds timeout);

/// Reports to the ranks that wait in agree() why this rank does not take part. Where this rank would host the store, it
/// does so until they know, for some seconds.
void report_rejected_rank(const Environment& environment, const std::string& why);

/// The name of this machine.
std::string host_name();

}  // namespace modular
