#include "runtime/train/save_signals.h"

#include <time.h>

#include <algorithm>
#include <vector>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};

volatile sig_atomic_t noted_save = 0, noted_end = 0;
volatile int64_t noted_save_at = 0, noted_end_at = 0;  // nanoseconds

// A scheduler may send a signal to a program and to its process group, and ranks may receive them in different steps:
// that is one request.
constexpr int64_t kSameRequest = 1'000'000'000;

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

void note(int signal) {
  if (signal == SIGUSR1) {
    noted_save = 1;
    noted_save_at = now();
  } else if (noted_end == 0) {
    noted_end = signal;
    noted_end_at = now();
  } else if (signal != noted_end || now() - noted_end_at > kSameRequest) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

/// Returns the previous action of the signal. A signal that is ignored, as under nohup, stays ignored.
struct sigaction handle(int signal) {
  struct sigaction before = {}, action = {};
  sigaction(signal, nullptr, &before);
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;  // pending reads and receives continue
  if (signal == SIGUSR1 || before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
  return before;
}

}  // namespace

SaveSignals::SaveSignals() {
  noted_save = 0;
  noted_end = 0;
  for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = handle(kSignals[i]);
}

SaveSignals::~SaveSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

SaveRequest SaveSignals::agree(Mesh& mesh, bool also_save, std::span<int64_t> largest) {
  std::vector<int64_t> values = {also_save ? 1 : 0, noted_end};
  if (noted_save != 0) {
    noted_save = 0;
    if (!asked_at_ || noted_save_at - *asked_at_ > kSameRequest) values[0] = 1;
  }
  values.insert(values.end(), largest.begin(), largest.end());
  const auto tensor = at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kLong);
  all_reduce(mesh.control(), tensor, "what signals ask of the run", c10d::ReduceOp::MAX).wait();
  std::copy(values.begin() + 2, values.end(), largest.begin());
  if (values[0] != 0) asked_at_ = now();
  return {values[0] != 0, static_cast<int>(values[1])};
}

}  // namespace modular
