#include "runtime/train/save_signals.h"

#include <signal.h>

#include <array>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

constexpr std::array kEnd = {SIGTERM, SIGINT, SIGHUP};

volatile sig_atomic_t noted_save = 0, noted_end = 0;

void note(int signal) {
  if (signal == SIGUSR1) {
    noted_save = 1;
  } else if (noted_end == 0) {
    noted_end = signal;
  } else {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // what waits for a file or a peer goes on waiting
  sigaction(signal, &action, nullptr);
}

}  // namespace

SaveSignals::SaveSignals() {
  noted_save = 0;
  noted_end = 0;
  handle(SIGUSR1, note);
  for (const int signal : kEnd) handle(signal, note);
}

SaveSignals::~SaveSignals() {
  handle(SIGUSR1, SIG_DFL);
  for (const int signal : kEnd) handle(signal, SIG_DFL);
}

SaveRequest SaveSignals::agree(Mesh& mesh, bool also_save) {
  int asked[] = {also_save ? 1 : 0, noted_end};
  if (noted_save != 0) {
    noted_save = 0;
    asked[0] = 1;
  }
  // In host memory, so that no GPU is waited for.
  all_reduce(mesh.world(), at::from_blob(asked, {2}, at::kInt), "what signals ask of the run", c10d::ReduceOp::MAX)
      .wait();
  return {asked[0] != 0, asked[1]};
}

}  // namespace modular
