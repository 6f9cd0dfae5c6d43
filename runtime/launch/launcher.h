// modrun's own launcher: starts the ranks of one machine with torchrun's environment, watches them, and when one fails
// stops the others and says which one, where and why.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace modular {

struct LaunchOptions {
  int64_t ranks_per_node = 1;
  int64_t nodes = 1;
  int64_t node_rank = 0;
  std::string master_addr;   // host of node 0; not given: this machine, for one node only
  uint16_t master_port = 0;  // 0: chosen by the system, for one node only
  std::string log_folder;  // each rank's output and error file; empty: a temporary folder, kept where a failed rank has
                           // one there
  bool quiet = false;      // show the output of no rank
  bool show_all = false;   // show the output of all ranks, each line with its rank, rather than that of rank 0
  std::chrono::milliseconds stop_grace = std::chrono::seconds(3);  // between SIGTERM and SIGKILL once a rank has failed
  int64_t max_restarts = 0;  // how often all ranks are started again after one has failed

  int64_t world_size() const { return ranks_per_node * nodes; }
};

/// The flags of the launcher and what follows them.
struct LaunchCommandLine {
  LaunchOptions options;
  bool given = false;             // whether a launcher flag was there
  std::vector<std::string> rest;  // from the first argument on that is none

  /// False for a world of one that nobody has to watch.
  bool needs_launcher() const {
    return given && (options.world_size() > 1 || options.max_restarts > 0 || !options.log_folder.empty());
  }
};

/// Reads --nproc-per-node, --nnodes, --node-rank, --master-addr, --master-port, --max-restarts, --log-dir and
/// --show-all (with "=" or a space, "-" or "_", as torchrun) from the front of a command line without its program.
/// Throws std::runtime_error in one sentence for a wrong value, and when another launcher (RANK is set) has started
/// this process.
LaunchCommandLine parse_launch_flags(const std::vector<std::string>& arguments);

/// The flags, for a program's --help.
const char* launch_flags_help();

/// Runs `command` as options.ranks_per_node ranks and returns when all have ended: 0, or the status of the rank that
/// failed first (128 + the signal that killed it). After a failure all ranks are started again, up to
/// options.max_restarts times, with TORCHELASTIC_RESTART_COUNT counted up. Hosts the job's store on node 0. Signals
/// that ask to end (SIGINT, SIGTERM, SIGHUP) and SIGUSR1 and SIGUSR2 are passed on to the ranks, which may take their
/// time; a second one that asks to end kills them. A rank that exits with 128 + such a signal has not failed.
int launch(const LaunchOptions& options, const std::vector<std::string>& command);

/// The same with this program and `arguments` as the command.
int launch_self(const LaunchOptions& options, const std::vector<std::string>& arguments);

/// The cores of this machine that this process may use, shared out between `ranks` ranks: the threads that the launcher
/// gives to each by OMP_NUM_THREADS, where that is not set.
int64_t threads_per_rank(int64_t ranks);

}  // namespace modular
