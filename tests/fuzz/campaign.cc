#include "tests/fuzz/campaign.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>

#include "runtime/ops/cpu/cpu_caching_allocator.h"
#include "tests/fuzz/message_rule.h"

// Sanitizer defaults, if the program is built with sanitizers; ASAN_OPTIONS overrides them. libtorch is not
// instrumented: memory that crosses into it must not be mistaken for an error. A file of a few kilobytes does not
// justify an allocation of a gigabyte.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:detect_container_overflow=0:max_allocation_size_mb=1024:allocator_may_return_null=0";
}
extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

namespace modular::fuzz {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr rlim_t kMostMemory = rlim_t{4} << 30;

/// State that the reading process reports to the watching one, in shared memory.
struct Progress {
  std::atomic<uint64_t> next = 0;  // input
  std::atomic<uint64_t> accepted = 0, rejected = 0, kinds = 0;
  std::atomic<double> slowest = 0.0;
  std::atomic<bool> said = false;  // whether `words` is valid
  std::array<char, 1000> words{};  // how the last input broke the rule
};

/// Memory that both processes share; never unmapped.
Progress& shared_progress() {
  void* const memory =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory to share");
  return *new (memory) Progress();
}

Input get_input(const Reader& reader, uint64_t seed, uint64_t number) {
  Random of_seed(seed);
  uint64_t mixed = of_seed.next() + number;
  for (const char c : reader.name) mixed = Random(mixed ^ static_cast<unsigned char>(c)).next();
  Random random(mixed);
  return reader.make(random);
}

/// Writes the input into the working directory, where it stays if it crashes the process.
void lay_out(const Input& input) {
  for (const auto& entry : fs::directory_iterator(".")) fs::remove_all(entry.path());
  write_files(".", input.files);
  if (input.overrides.empty()) return;
  std::ofstream file("settings");
  for (const std::string& setting : input.overrides) file << setting << '\n';
}

/// Returns how reading broke the rule, or an empty string.
std::string read_input(const Reader& reader, const Input& input, Progress& progress, std::set<std::string>& kinds) {
  try {
    reader.read(input);
    ++progress.accepted;
    return {};
  } catch (const std::exception& error) {
    ++progress.rejected;
    kinds.insert(kind_of_message(error.what()));
    progress.kinds = kinds.size();
    const std::string broken = broken_rule(error, reader.locations);
    return broken.empty() ? broken : broken + ": " + error.what();
  } catch (...) {
    return "it is not a std::exception";
  }
}

/// Reads inputs until one breaks the rule, or all are read. Runs in a separate process.
void read_inputs(const Reader& reader, const Campaign& campaign, Progress& progress) {
  use_one_thread();
  if (!cpu::kAddressSanitizer) {
    const rlimit memory{kMostMemory, kMostMemory};
    ::setrlimit(RLIMIT_DATA, &memory);
  }
  std::set<std::string> kinds;
  for (uint64_t number = progress.next; number < campaign.first + campaign.count; number = ++progress.next) {
    const Input input = get_input(reader, campaign.seed, number);
    lay_out(input);
    const auto start = Clock::now();
    const std::string broken = read_input(reader, input, progress, kinds);
    const std::chrono::duration<double> taken = Clock::now() - start;
    if (taken.count() > progress.slowest) progress.slowest = taken.count();
    if (broken.empty()) continue;
    std::strncpy(progress.words.data(), broken.c_str(), progress.words.size() - 1);
    progress.said = true;
    while (progress.said) std::this_thread::yield();
  }
}

/// The last report of a sanitizer, or the exception.
std::string last_words(const fs::path& file) {
  std::ifstream lines(file);
  std::string chosen;
  for (std::string line; std::getline(lines, line);)
    if (line.find("SUMMARY: ") != std::string::npos || line.find("runtime error: ") != std::string::npos ||
        line.find("what():") != std::string::npos || line.find("ERROR: AddressSanitizer") != std::string::npos)
      if (chosen.find("runtime error: ") == std::string::npos) chosen = line;
  return chosen;
}

std::string text_of_status(int status) {
  if (WIFSIGNALED(status)) return std::string("it ended by ") + ::strsignal(WTERMSIG(status));
  return "it ended with status " + std::to_string(WEXITSTATUS(status));
}

class Watch {
 public:
  Watch(const Reader& reader, const Campaign& campaign)
      : reader_(reader), campaign_(campaign), progress_(shared_progress()) {
    progress_.next = campaign.first;
    std::string name = (fs::temp_directory_path() / "modular-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error(name + " cannot be made");
    work_ = name;
  }
  ~Watch() { fs::remove_all(work_); }

  Result run() {
    const auto start = Clock::now();
    while (progress_.next < end()) {
      start_process();
      while (!look()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    result_.accepted = progress_.accepted, result_.rejected = progress_.rejected;
    result_.kinds_of_errors = progress_.kinds, result_.slowest = progress_.slowest;
    result_.time = Clock::now() - start;
    return std::move(result_);
  }

 private:
  uint64_t end() const { return campaign_.first + campaign_.count; }

  void start_process() {
    std::fflush(nullptr);
    seen_ = progress_.next, since_ = Clock::now();
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("no process can be started");
    if (process_ > 0) return;
    const fs::path folder = work_ / "input", words = work_ / "stderr";
    fs::create_directories(folder);
    fs::current_path(folder);
    const int file = ::open(words.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, STDERR_FILENO);
    try {
      read_inputs(reader_, campaign_, progress_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "what(): the fuzzer itself: %s\n", error.what());
      ::_exit(3);
    }
    ::_exit(0);
  }

  /// Handles the process's reports; returns true when it has ended.
  bool look() {
    int status = 0;
    if (::waitpid(process_, &status, WNOHANG) == process_) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
      const std::string words = last_words(work_ / "stderr");
      add(text_of_status(status) + (words.empty() ? "" : ": " + words));
      ++progress_.next;
      return true;
    }
    if (progress_.said) {
      add(progress_.words.data());
      progress_.said = false;
    }
    if (const uint64_t now = progress_.next; now != seen_) {
      seen_ = now, since_ = Clock::now();
    } else if (Clock::now() - since_ > campaign_.longest) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, &status, 0);
      add("it took longer than " + std::to_string(campaign_.longest.count()) + " s");
      ++progress_.next;
      return true;
    }
    return false;
  }

  void add(const std::string& what) {
    const auto [found, is_new] = result_.found.try_emplace(kind_of_message(what), Found{what, progress_.next, 0});
    if (!is_new) return void(++found->second.more);
    const fs::path folder = campaign_.found / (std::string(reader_.name) + "-" + std::to_string(campaign_.seed) + "-" +
                                               std::to_string(progress_.next));
    write_files(folder, get_files(work_ / "input"));
    std::error_code none;
    fs::copy_file(work_ / "stderr", folder / "stderr", fs::copy_options::overwrite_existing, none);
    std::ofstream(folder / "what") << what << '\n';
    std::printf("%s: input %llu: %s\n  kept in %s\n", std::string(reader_.name).c_str(),
                static_cast<unsigned long long>(progress_.next), what.c_str(), folder.c_str());
    std::fflush(stdout);
  }

  const Reader& reader_;
  const Campaign& campaign_;
  Progress& progress_;
  fs::path work_;
  pid_t process_ = 0;
  uint64_t seen_ = 0;
  Clock::time_point since_;
  Result result_;
};

}  // namespace

Result run_campaign(const Reader& reader, const Campaign& campaign) { return Watch(reader, campaign).run(); }

}  // namespace modular::fuzz
