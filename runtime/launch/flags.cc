#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "runtime/launch/launcher.h"

namespace modular {
namespace {

int64_t number(const std::string& flag, const std::string& text, int64_t smallest, int64_t largest) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < smallest || value > largest)
    throw std::runtime_error(
        fmt::format("{} is \"{}\": it must be a whole number from {} to {}", flag, text, smallest, largest));
  return value;
}

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSeconds = 1'000'000;

/// Sets the option that `flag` names; returns false if it is not a launcher flag.
bool set(LaunchOptions& options, const std::string& flag, const std::string& value) {
  if (flag == "--nproc-per-node") {
    options.ranks_per_node = number(flag, value, 1, kMost);
  } else if (flag == "--nnodes") {
    options.nodes = number(flag, value, 1, kMost);
  } else if (flag == "--node-rank") {
    options.node_rank = number(flag, value, 0, kMost);
  } else if (flag == "--master-addr") {
    options.master_addr = value;
  } else if (flag == "--master-port") {
    options.master_port = static_cast<uint16_t>(number(flag, value, 1, std::numeric_limits<uint16_t>::max()));
  } else if (flag == "--max-restarts") {
    options.max_restarts = number(flag, value, 0, kMost);
  } else if (flag == "--join-timeout") {
    options.join_timeout = std::chrono::seconds(number(flag, value, 1, kMostSeconds));
  } else if (flag == "--rejoin-timeout") {
    options.rejoin_timeout = std::chrono::seconds(number(flag, value, 1, kMostSeconds));
  } else if (flag == "--node-timeout") {
    options.node_timeout = std::chrono::seconds(number(flag, value, 4, kMostSeconds));
  } else if (flag == "--log-dir") {
    options.log_folder = value;
  } else {
    return false;
  }
  return true;
}

bool takes_value(const std::string& flag) {
  LaunchOptions unused;
  return set(unused, flag, "4");
}

void check(const LaunchOptions& options) {
  if (options.node_rank >= options.nodes)
    throw std::runtime_error(
        fmt::format("--node-rank {} must be less than --nnodes {}", options.node_rank, options.nodes));
  if (options.nodes > 1 && (options.master_addr.empty() || options.master_port == 0))
    throw std::runtime_error(
        "--nnodes above 1 needs --master-addr and --master-port: node 0's host name and a free port on it, the same on "
        "all nodes");
}

}  // namespace

LaunchCommandLine parse_launch_flags(const std::vector<std::string>& arguments) {
  LaunchCommandLine line;
  size_t next = 0;
  while (next < arguments.size() && arguments[next].starts_with("--")) {
    const size_t equals = arguments[next].find('=');
    std::string flag = arguments[next].substr(0, equals);
    std::ranges::replace(flag, '_', '-');
    if (flag == "--show-all" && equals == std::string::npos) {
      line.options.show_all = true;
    } else if (!takes_value(flag)) {
      break;
    } else if (equals != std::string::npos) {
      set(line.options, flag, arguments[next].substr(equals + 1));
    } else {
      if (++next == arguments.size()) throw std::runtime_error(fmt::format("{} needs a value", flag));
      set(line.options, flag, arguments[next]);
    }
    line.given = true;
    ++next;
  }
  line.rest.assign(arguments.begin() + static_cast<std::ptrdiff_t>(next), arguments.end());
  if (!line.given) return line;
  check(line.options);
  if (std::getenv("RANK"))
    throw std::runtime_error(
        "another launcher started this process (RANK is set): remove the launcher flags of modrun");
  return line;
}

const char* launch_flags_help() {
  return R"(Launcher flags, before the command:
  --nproc-per-node N   ranks to start on this machine
  --nnodes N           number of machines; start modrun on each with the same flags except --node-rank
  --node-rank I        index of this machine, from 0
  --master-addr HOST   host name of machine 0
  --master-port PORT   a free port on machine 0
  --max-restarts N     how often to restart all ranks after one has failed; train then resumes from its newest
                       checkpoint
  --join-timeout S     seconds for all machines to join the job (300)
  --rejoin-timeout S   seconds for a lost machine to rejoin, with --max-restarts: start modrun there as before (300)
  --node-timeout S     seconds after which a machine that does not answer counts as gone (15)
  --log-dir DIR        folder for each rank's output (default: a temporary folder)
  --show-all           show the output of all ranks, not only rank 0
Without these flags modrun runs as a single rank, or as the rank that torchrun, srun or mpirun started.
)";
}

}  // namespace modular
