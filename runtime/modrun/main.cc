// modrun: parses the launcher's flags and the command, validates everything that can be validated, and only then starts
// ranks or runs.
#include <fmt/format.h>

#include <ATen/Parallel.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/launch/failure.h"
#include "runtime/launch/launcher.h"
#include "runtime/mesh/backend_library.h"
#include "runtime/mesh/libraries.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/ops/cpu/cpu_caching_allocator.h"
#include "runtime/ops/fused.h"
#include "runtime/search/own_objective.h"
#include "runtime/train/trainer.h"

namespace modular {
namespace {

constexpr int kRejected = 2;

/// Everything that happens before a rank runs, in a try block that must be left before one does (see run_rank).
struct Start {
  int status = 0;
  LaunchCommandLine launch;
  Environment environment;
  PreparedCommand command;  // run is empty if nothing is left to do
  bool is_awaited = false;  // the other ranks of the job wait for this process
};

int reject(const std::string& sentence, const Start& start) {
  // Under torchrun all ranks find the same error, and one of them prints it. Errors of single ranks are reported by
  // their launcher.
  const char* local_rank = std::getenv("LOCAL_RANK");
  const char* const file = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!local_rank || std::string(local_rank) == "0")
    print_to(stderr, "modrun: {}\n", sentence);
  else if (file && *file)
    write_failure(file, {.message = sentence, .phase = "checking the run"});
  if (!start.is_awaited) return kRejected;
  const Environment& environment = start.environment;
  if (start.launch.needs_launcher())
    report_rejection(start.launch.options, sentence);
  else if (environment.world_size > 1 && environment.store_prefix.empty())
    report_rejected_rank(environment, sentence);
  return kRejected;
}

Start start(const std::vector<std::string>& words) {
  Start result;
  try {
    result.launch = parse_launch_flags(words);
    const auto [name, parsed, exit_status] = parse_command_line(result.launch.rest);
    if (exit_status) {
      result.status = *exit_status;
      return result;
    }
    result.environment = Environment::from_process();
    const bool launches = result.launch.needs_launcher();
    // The launcher handles signals on its only thread, which a thread pool would intercept.
    if (launches) at::set_num_threads(1);
    Environment env = result.environment;
    if (launches) {
      const LaunchOptions& options = result.launch.options;
      env.rank = options.node_rank * options.ranks_per_node;
      env.world_size = options.world_size();
      env.local_world_size = options.ranks_per_node;
    }
    if (const auto* const local = std::get_if<LocalCommand>(&parsed)) {
      result.status = (*local)(result.launch.options, env.world_size);
      return result;
    }
    // ATen caches the result of its first search for a GPU, and preparing searches: load the library first.
    if (!launches) gpu_count();
    result.is_awaited = true;
    result.command = std::get<RankCommand>(parsed)(env);
    result.command.options.resolved_config.insert(result.command.options.resolved_config.begin(),
                                                  {"the command", name});
    // A rank of our own launcher must not repeat these checks and notes: rank 0 may already be writing.
    if (result.environment.rank == 0 && !std::getenv("MODULAR_LAUNCHED")) {
      // With several machines, a machine that comes back joins a job whose ranks are already writing: the launcher
      // decides.
      const bool knows = !launches || result.launch.options.nodes == 1;
      if (knows && result.command.before_ranks) result.command.before_ranks();
      if (!result.command.note.empty()) print_result("{}\n", result.command.note);
    }
  } catch (const std::exception& error) {
    result.status = reject(get_message(error), result);
  }
  return result;
}

int run(const std::vector<std::string>& words) {
  auto [status, launch_line, environment, command, is_awaited] = start(words);
  if (status != 0 || !command.run) return status;
  if (launch_line.needs_launcher()) {
    setenv("MODULAR_LAUNCHED", "1", /*overwrite=*/1);
    // The ranks open the data themselves, so the launcher lets go of it after its checks.
    std::function<void()> before_ranks;
    if (launch_line.options.nodes > 1 && command.before_ranks)
      before_ranks = [kept = std::make_shared<PreparedCommand>(command)] {
        kept->before_ranks();
        *kept = {};
      };
    command = {};
    return launch_self(launch_line.options, launch_line.rest, before_ranks);
  }
  cpu::install_cpu_caching_allocator();
  install_fused_functions();
  return run_rank([&, &environment = environment, &command = command] {
    command.options.on_lost_machine = [](const std::string& sentence) { end_rank(sentence); };
    Mesh mesh(environment, command.mesh, command.options);
    return command.run(mesh);
  });
}

}  // namespace
}  // namespace modular

int main(int argc, char** argv) {
  // A closed terminal, or a request for a checkpoint before the first step, does not end a run. Writing beyond the file
  // size limit returns an error that names the file.
  for (const int signal : {SIGPIPE, SIGUSR1, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const int status = modular::run({argv + 1, argv + argc});
  // libtorch destroys its operators one by one, which takes longer than training a small model: leave the memory to the
  // system. A user's own program or library needs its destructors, and leak checkers and coverage in debug builds need
  // an orderly exit.
  const bool is_own_program =
      !modular::hooks().empty() || !modular::own_objectives().empty() || modular::has_loaded_backend();
  const bool is_written = std::fflush(nullptr) == 0 || errno == EPIPE;
  if (!is_written) modular::print_to(stderr, "modrun: the output cannot be written: {}\n", std::strerror(errno));
  const int ended = status == 0 && !is_written ? 1 : status;
#ifdef NDEBUG
  if (!is_own_program && !C10_ASAN_ENABLED) _exit(ended);
#endif
  return ended;
}
