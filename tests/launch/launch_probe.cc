// Program for the launcher's tests: like modrun, but one rank misbehaves in a given way.
//   launch_probe [launcher flags] WAY RANK     e.g. launch_probe --nproc-per-node 2 throw 1; -1 means all ranks
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/launch/failure.h"
#include "runtime/launch/launcher.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/mesh/status.h"

namespace modular {
namespace {

void wait_in_collective(Mesh& mesh) {
  at::Tensor value = at::ones({1});
  all_reduce(mesh.world(), value, "the loss").wait();
}

/// Behavior of the misbehaving rank in step 3, while the others wait for it.
const std::map<std::string, std::function<void()>> kWays = {
    {"work", [] {}},
    {"throw", [] { throw std::runtime_error("the data file is cut off"); }},
    {"throw-while-others-save", [] { throw std::runtime_error("the data file is cut off"); }},
    {"check", [] { TORCH_CHECK(false, "sizes differ"); }},
    {"kill", [] { kill(getpid(), SIGKILL); }},
    {"crash", [] { raise(SIGSEGV); }},
    {"exit3", [] { _exit(3); }},
    {"hang",
     [] {
       for (;;) pause();
     }},
    {"ignore-term",
     [] {
       signal(SIGTERM, SIG_IGN);
       signal(SIGINT, SIG_IGN);
       printf("it ignores it\n");
       fflush(stdout);
       for (;;) pause();
     }},
    {"killed-while-it-saves",
     [] {
       signal(SIGTERM, [](int) { kill(getpid(), SIGKILL); });
       printf("it trains\n");
       fflush(stdout);
       for (;;) pause();
     }},
    {"hang-once",
     [] {
       if (std::string(std::getenv("TORCHELASTIC_RESTART_COUNT")) == "0")
         for (;;) pause();
     }},
    {"hang-twice",
     [] {
       if (std::stoi(std::getenv("TORCHELASTIC_RESTART_COUNT")) < 2)
         for (;;) pause();
     }},
    {"stop", [] { raise(SIGSTOP); }},
    {"throw-once",
     [] {
       if (std::string(std::getenv("TORCHELASTIC_RESTART_COUNT")) == "0") throw std::runtime_error("the first attempt");
     }},
    {"throw-escapes", [] { throw std::runtime_error("\x1b[2Jcleared"); }},
    {"end-in-order", [] { _exit(128 + SIGTERM); }},
};

/// Rank 1 fails as if c10d's NCCL watchdog ended it; rank 0 fails for its own reason and reports it later.
void fail_after_the_backend(const Mesh& mesh, const std::function<void()>& wait) {
  if (mesh.rank() == 1)
    std::thread([] { C10_THROW_ERROR(DistBackendError, "NCCL watchdog thread terminated with exception"); }).join();
  try {
    wait();  // until rank 1 has died
  } catch (const CollectiveError&) {
    set_waiting({});
  }
  throw std::runtime_error("the disk is full");
}

int run(const std::string& way, int64_t misbehaving_rank) {
  const auto environment = Environment::from_process();
  MeshShape shape;
  shape[Axis::dp_shard] = environment.world_size;
  const char* timeout = std::getenv("PROBE_TIMEOUT_MS");
  Mesh mesh(environment, shape,
            {.device = at::kCPU,
             .collective_timeout = std::chrono::milliseconds(timeout ? std::atoi(timeout) : 60000),
             .on_lost_machine = [](const std::string& message) { end_rank(message); }});
  wait_in_collective(mesh);
  printf("rank %d of %d is up, %s threads\n", static_cast<int>(mesh.rank()), static_cast<int>(mesh.world_size()),
         std::getenv("OMP_NUM_THREADS"));
  fflush(stdout);
  set_phase("step 3");
  if (way == "throw-while-others-save" && mesh.rank() != misbehaving_rank) {
    signal(SIGTERM, [](int) { _exit(128 + SIGTERM); });
    for (;;) pause();
  }
  if (way == "backend-fails-first") fail_after_the_backend(mesh, [&] { wait_in_collective(mesh); });
  if (mesh.rank() == misbehaving_rank || misbehaving_rank < 0) kWays.at(way)();
  wait_in_collective(mesh);
  return 0;
}

}  // namespace
}  // namespace modular

int main(int argc, char** argv) {
  const auto line = modular::parse_launch_flags({argv + 1, argv + argc});
  if (line.needs_launcher()) return modular::launch_self(line.options, line.rest);
  return modular::run_rank([&] { return modular::run(line.rest.at(0), std::stoll(line.rest.at(1))); });
}
