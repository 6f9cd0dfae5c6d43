#include "runtime/launch/rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "runtime/files/open_file.h"
#include "runtime/launch/process.h"
#include "runtime/mesh/print.h"

namespace modular {
namespace {

constexpr size_t kLastLines = 20;

// Shorter stops are not reported.
constexpr auto kStopped = std::chrono::seconds(1);
// Limit per poll: the launcher itself may have been stopped, and that time does not count.
constexpr auto kLongestPoll = std::chrono::seconds(1);

int64_t now_in_nanoseconds() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

/// Whether a debugger holds the process.
bool is_traced(pid_t process) {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  for (std::string word; status >> word;)
    if (int64_t tracer = 0; word == "TracerPid:" && status >> tracer) return tracer != 0;
  return false;
}

std::string where(const std::string& phase, const std::string& location, const std::string& waiting) {
  std::string text = phase.empty() ? "before its first step" : phase;
  if (!location.empty()) text += fmt::format(" ({})", location);
  if (!waiting.empty()) text += fmt::format(", waiting for {}", waiting);
  return text;
}

}  // namespace

Rank::Rank(int64_t number, const std::filesystem::path& folder, Output output) : number_(number), output_(output) {
  log_ = folder / fmt::format("rank{}.log", number);
  failure_file_ = folder / fmt::format("rank{}.error.json", number);
  status_file_ = folder / fmt::format("rank{}.status", number);
  // Remove files from an earlier run in the same folder.
  std::filesystem::remove(failure_file_);
  std::filesystem::remove(status_file_);
}

void Rank::start(const std::vector<std::string>& command, std::vector<std::string> variables) {
  variables.push_back("TORCHELASTIC_ERROR_FILE=" + failure_file_.string());
  variables.push_back("MODULAR_STATUS_FILE=" + status_file_.string());
  int output = -1, pipe_ends[2] = {-1, -1};
  if (has_log()) {
    log_descriptor_ = open_to_write(log_, O_CREAT | O_TRUNC | O_APPEND).release();
    output = log_descriptor_;
  }
  if (output_ == Output::prefixed) {
    if (pipe2(pipe_ends, O_CLOEXEC) != 0)
      throw std::runtime_error(fmt::format("cannot create a pipe: {}", std::strerror(errno)));
    fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
    output = pipe_ends[1];
  }
  pid_ = start_process(command, child_environment(variables), {.output = output, .error = output});
  end_ = open_pidfd(pid_);
  if (output_ == Output::log_only) close(std::exchange(log_descriptor_, -1));
  if (output_ == Output::prefixed) {
    close(pipe_ends[1]);
    output_pipe_ = pipe_ends[0];
  }
}

void Rank::show_output() {
  if (output_pipe_ < 0) return;
  char buffer[1 << 16];
  ssize_t count = 0;
  while ((count = read(output_pipe_, buffer, sizeof(buffer))) > 0) {
    if (write(log_descriptor_, buffer, static_cast<size_t>(count)) < 0)
      print_to(stderr, "modrun: cannot write {}: {}\n", log_.string(), std::strerror(errno));
    unfinished_line_.append(buffer, static_cast<size_t>(count));
    size_t start = 0;
    for (size_t end; (end = unfinished_line_.find('\n', start)) != std::string::npos; start = end + 1)
      print_to(stdout, "[{}] {}\n", number_, std::string_view(unfinished_line_).substr(start, end - start));
    unfinished_line_.erase(0, start);
  }
  fflush(stdout);
  const bool closed = count == 0;
  if (!closed) return;
  if (!unfinished_line_.empty()) print_to(stdout, "[{}] {}\n", number_, unfinished_line_);
  unfinished_line_.clear();
  close(std::exchange(output_pipe_, -1));
  close(std::exchange(log_descriptor_, -1));
}

void Rank::signal(int number) const {
  if (running()) kill(-pid_, number);
}

void Rank::kill_now() {
  was_killed_ |= running();
  signal(SIGKILL);
}

void Rank::reap() {
  if (!running() || waitpid(pid_, &wait_status_, WNOHANG) != pid_) return;
  ended_ = true;
  ended_at_ = now_in_nanoseconds();
  close(end_);
  end_ = -1;
  kill(-pid_, SIGKILL);  // its remaining child processes
  report_ = read_failure(failure_file_.string());
  status_ = read_status(status_file_.string());
}

void Rank::check_frozen(std::chrono::milliseconds elapsed) {
  if (!running() || frozen()) return;
  elapsed = std::min<std::chrono::milliseconds>(elapsed, kLongestPoll);
  siginfo_t change = {};
  if (waitid(P_PID, static_cast<id_t>(pid_), &change, WSTOPPED | WCONTINUED | WNOHANG) == 0 && change.si_pid == pid_) {
    is_stopped_ = change.si_code == CLD_STOPPED;
    stopped_for_ = {};
  } else if (is_stopped_) {
    stopped_for_ += elapsed;
  }
  const Heartbeat heartbeat = read_heartbeat(status_file_.string());
  const bool is_still = heartbeat.frozen_after.count() > 0 && heartbeat.beats == beats_ && !is_traced(pid_);
  silent_for_ = is_still ? silent_for_ + elapsed : std::chrono::milliseconds(0);
  beats_ = heartbeat.beats;
  const bool is_silent = is_still && silent_for_ >= heartbeat.frozen_after;
  if (is_stopped_ && stopped_for_ >= kStopped)
    frozen_ = "its process is stopped, as by SIGSTOP";
  else if (is_silent)
    frozen_ = fmt::format(
        "its process has shown no sign of life for {} s (parallel.frozen_seconds): its machine may be swapping "
        "or waiting for a device",
        heartbeat.frozen_after.count());
  if (frozen()) frozen_at_ = now_in_nanoseconds();
}

void Rank::wait() {
  while (running()) {
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    reap();
  }
}

void Rank::note_state_at_failure() {
  ran_at_failure_ = running();
  if (ran_at_failure_) status_ = read_status(status_file_.string());
}

bool Rank::failed() const {
  return frozen() || (ended_ && !stopped_by() && (!WIFEXITED(wait_status_) || WEXITSTATUS(wait_status_) != 0));
}

std::optional<int> Rank::stopped_by() const {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP})
    if (ended_ && WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 128 + signal) return signal;
  return std::nullopt;
}

bool Rank::ended_well() const { return ended_ && WIFEXITED(wait_status_) && WEXITSTATUS(wait_status_) == 0; }

bool Rank::failed_by_itself() const {
  if (frozen()) return true;
  if (!failed() || is_consequence()) return false;
  if (WIFEXITED(wait_status_)) return true;
  const int signal = WTERMSIG(wait_status_);
  return !was_killed_ && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
}

bool Rank::is_consequence() const {
  return !frozen() && failed() && WIFEXITED(wait_status_) && report_ && report_->consequence;
}

int64_t Rank::failed_at() const {
  if (frozen()) return frozen_at_;
  return report_ && report_->nanoseconds > 0 ? report_->nanoseconds : ended_at_;
}

int Rank::exit_status() const {
  if (frozen()) return 1;
  return WIFSIGNALED(wait_status_) ? 128 + WTERMSIG(wait_status_) : WEXITSTATUS(wait_status_);
}

std::string Rank::last_output() const {
  if (output_ != Output::log_only) return {};
  std::ifstream stream(log_);
  std::deque<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
    if (lines.size() > kLastLines) lines.pop_front();
  }
  if (lines.empty()) return {};
  std::string text = fmt::format("modrun: last lines of rank {}:\n", number_);
  for (const std::string& line : lines) text += fmt::format("  | {}\n", line);
  return text;
}

std::string Rank::why() const {
  if (frozen()) return frozen_;
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    return fmt::format("killed by SIG{} ({}){}", sigabbrev_np(signal), strsignal(signal),
                       signal == SIGKILL ? ", which the kernel sends when memory runs out" : "");
  }
  const int status = WEXITSTATUS(wait_status_);
  if (!report_) return fmt::format("exited with status {} and left no error message", status);
  return report_->message;
}

std::string Rank::summary(int64_t world_size, const std::vector<Rank>& all) const {
  std::string text = fmt::format("modrun: rank {} of {} {}{}\n", number_, world_size, frozen() ? "is frozen" : "failed",
                                 world_size > 1 ? "; the job was stopped" : "");
  if (has_log()) text += fmt::format("  log:   {}\n", log_.string());
  // A failed collective is rarely the root cause: print what the peers were doing.
  if (is_consequence())
    for (const Rank& rank : all)
      if (rank.ran_at_failure_)
        text += fmt::format("  rank {} was still running: {}\n", rank.number_,
                            where(rank.status_.phase, "", rank.status_.waiting));
  const FailureReport known = report_ ? *report_ : FailureReport{.phase = status_.phase, .waiting = status_.waiting};
  text += fmt::format("  where: {}\n", where(known.phase, known.location, known.waiting));
  text += fmt::format("  why:   {}\n", why());
  return text;
}

const Rank* first_cause(const std::vector<Rank>& ranks) {
  const Rank* first = nullptr;
  const auto order = [](const Rank& rank) { return std::tuple(rank.is_consequence(), rank.failed_at()); };
  for (const Rank& rank : ranks)
    if (rank.failed() && (!first || order(rank) < order(*first))) first = &rank;
  return first;
}

}  // namespace modular
