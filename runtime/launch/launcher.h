// modrun's own launcher: starts the ranks of one machine with torchrun's environment, watches them, and when one fails
// stops the others and says which one, where and why.
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
  std::string master_addr;   // host of node 0; not given: this machine, for one node only
  uint16_t master_port = 0;  // 0: chosen by the system, for one node only
  std::string log_folder;  // each rank's output and error file; empty: a temporary folder, kept where a failed rank has
                           // one there
  bool quiet = false;      // show the output of no rank
  bool show_all = false;   // show the output of all ranks, each line with its rank, rather than that of rank 0
  std::chrono::milliseconds stop_grace = std::chrono::seconds(3);  // between SIGTERM and SIGKILL once a rank has failed
  int64_t max_restarts = 0;  // how often all ranks are started again after one has failed
  std::chrono::milliseconds join_timeout = std::chrono::minutes(5);    // for all machines to join the job
  std::chrono::milliseconds rejoin_timeout = std::chrono::minutes(5);  // for a lost machine to come back, with restarts
  std::chrono::milliseconds node_timeout = std::chrono::seconds(15);   // after which a silent machine counts as gone

  int64_t world_size() const { return ranks_per_node * nodes; }
};

/// The flags of the launcher and what follows them.
struct LaunchCommandLine {
  LaunchOptions options;
  bool given = false;             // whether a launcher flag was there
  std::vector<std::string> rest;  // from the first argument on that is none

  /// False for a world of one that needs no watching.
  bool needs_launcher() const {
    return given && (options.world_size() > 1 || options.max_restarts > 0 || !options.log_folder.empty());
  }
};

/// Reads the launcher's flags (with "=" or a space, "-" or "_", as torchrun) from the front of a command line without
/// its program. Throws std::runtime_error for a wrong value, and when another launcher (RANK is set) has started this
/// process.
LaunchCommandLine parse_launch_flags(const std::vector<std::string>& arguments);

/// The flags, for a program's --help.
const char* launch_flags_help();

/// Runs `command` as options.ranks_per_node ranks and returns when the job has ended: 0 if all ranks of all machines
/// ended well, the status of the rank that failed first (128 + the signal that killed it), 1 if another machine failed
/// or is lost, or 2 if the job could not start. After a failure all ranks are started again, up to options.max_restarts
/// times, with TORCHELASTIC_RESTART_COUNT counted up; a machine that is lost has options.rejoin_timeout to come back,
/// which it does by running the same command. Signals that ask to end (SIGINT, SIGTERM, SIGHUP) and SIGUSR1 and SIGUSR2
/// are passed on to the ranks, which may take their time; a second one that asks to end kills them. A rank that exits
/// with 128 + such a signal has not failed.
///
/// On several machines, `before_first` runs on each once all have joined, before the job's first rank is started; an
/// exception that it throws is reported by all machines, and no rank starts.
int launch(const LaunchOptions& options, const std::vector<std::string>& command,
           const std::function<void()>& before_first = {});

/// The same with this program and `arguments` as the command.
int launch_self(const LaunchOptions& options, const std::vector<std::string>& arguments,
                const std::function<void()>& before_first = {});

/// Reports to the other machines of a job, which would wait for this one, why it cannot take part.
void report_rejection(LaunchOptions options, const std::string& why);

/// The cores of this machine that this process may use, shared out between `ranks` ranks: the threads that the launcher
/// gives to each by OMP_NUM_THREADS, where that is not set.
int64_t threads_per_rank(int64_t ranks);

}  // namespace modular
