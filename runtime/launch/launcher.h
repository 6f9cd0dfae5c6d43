// modrun's own launcher: starts the ranks of one machine with torchrun's environment variables and watches them. When a
// rank fails, it stops the others and reports which rank failed, where and why.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace modular {

struct LaunchOptions {
  int64_t ranks_per_node = 1;
  int64_t nodes = 1;
  int64_t node_rank = 0;
  std::string master_addr;   // host of node 0; if empty, this machine (single node only)
  uint16_t master_port = 0;  // 0: chosen by the system (single node only)
  std::string log_folder;    // folder of each rank's output and error file; if empty, a temporary folder, which is kept
                             // if it holds a failed rank's log
  bool quiet = false;        // hide the output of all ranks
  bool show_all = false;     // show the output of all ranks, prefixed with the rank, not only that of rank 0
  std::chrono::milliseconds stop_grace = std::chrono::seconds(3);  // between SIGTERM and SIGKILL once a rank has failed
  int64_t max_restarts = 0;                                        // how often all ranks are restarted after a failure
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);    // for all machines to join the job
  std::chrono::milliseconds rejoin_timeout = std::chrono::minutes(5);  // for a lost machine to rejoin, with restarts
  std::chrono::milliseconds node_timeout = std::chrono::seconds(15);   // then a silent machine counts as gone

  int64_t world_size() const { return ranks_per_node * nodes; }
};

/// The launcher's flags and the arguments after them.
struct LaunchCommandLine {
  LaunchOptions options;
  bool given = false;             // whether any launcher flag was given
  std::vector<std::string> rest;  // from the first argument that is not a launcher flag

  /// False for a world size of 1 without restarts or a log folder.
  bool needs_launcher() const {
    return given && (options.world_size() > 1 || options.max_restarts > 0 || !options.log_folder.empty());
  }
};

/// Parses the launcher's flags at the start of a command line, which excludes the program name. As in torchrun, "=" or
/// a space and "-" or "_" are accepted. Throws std::runtime_error for an invalid value, or if another launcher started
/// this process (RANK is set).
LaunchCommandLine parse_launch_flags(const std::vector<std::string>& arguments);

/// Description of the flags for --help.
const char* launch_flags_help();

/// Runs `command` as options.ranks_per_node ranks and returns when the job has ended: 0 if all ranks of all machines
/// exited with 0, the status of the rank that failed first (128 + the signal that killed it), 1 if another machine
/// failed or was lost, or 2 if the job could not start. After a failure all ranks are restarted, up to
/// options.max_restarts times, and TORCHELASTIC_RESTART_COUNT is incremented. A lost machine has options.rejoin_timeout
/// to rejoin by running the same command. Termination signals (SIGINT, SIGTERM, SIGHUP), SIGUSR1 and SIGUSR2 are
/// forwarded to the ranks, which have no deadline; a second termination signal kills them. A rank that exits with 128 +
/// a termination signal has not failed.
///
/// In a multi-node job, `before_first` runs on each machine once all have joined, before the job's first rank starts.
/// If it throws, all machines report the exception and no rank starts.
int launch(const LaunchOptions& options, const std::vector<std::string>& command,
           const std::function<void()>& before_first = {});

/// The same, with this program and `arguments` as the command.
int launch_self(const LaunchOptions& options, const std::vector<std::string>& arguments,
                const std::function<void()>& before_first = {});

/// Reports to the other machines of a job, which would wait for this machine, why it cannot take part.
void report_rejection(LaunchOptions options, const std::string& why);

/// Number of cores that this process may use divided by `ranks`. The launcher sets OMP_NUM_THREADS of each rank to this
/// unless it is set already.
int64_t threads_per_rank(int64_t ranks);

}  // namespace modular
