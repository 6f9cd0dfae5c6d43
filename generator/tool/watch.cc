#include "generator/tool/commands.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <map>
#include <stdexcept>

#include "generator/process.h"
#include "generator/source/families.h"

namespace modgen {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

FileDescriptor opened(int number, const char* what) {
  if (number < 0) fail(what);
  return FileDescriptor(number);
}

class Watch {
 public:
  explicit Watch(const WatchOptions& options)
      : options_(options),
        signals_(opened(block_signals(), "signals cannot be waited for")),
        changes_(opened(inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "files cannot be watched")) {
    for (const fs::path& folder :
         {options.tree.root / "modular", options.tree.shipped / "modular", options.tree.shipped / "runtime/model"})
      if (!add(folder)) fail(folder.string() + " cannot be watched");
  }

  int run() {
    generate_stale();
    std::cout << "modgen: watching " << (options_.tree.root / "modular").string() << ", interrupt to end\n"
              << std::flush;
    while (wait_for_change()) generate_stale();
    std::cout << "modgen: ended\n" << std::flush;
    return 0;
  }

 private:
  static int block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, nullptr) < 0) return -1;
    return signalfd(-1, &set, SFD_CLOEXEC);
  }

  /// Watches `folder`. Returns false if it does not exist.
  bool add(const fs::path& folder) {
    const int watched = inotify_add_watch(
        changes_, folder.c_str(),
        IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR);
    if (watched >= 0) folders_[watched] = folder;
    return watched >= 0;
  }

  /// Waits until files have changed and then stay unchanged for a moment, as editors write several times, and until all
  /// folders exist. Returns false on a signal.
  bool wait_for_change() {
    constexpr int kQuietMilliseconds = 50;
    bool changed = false;
    for (;;) {
      std::array<pollfd, 2> files = {pollfd{signals_, POLLIN, 0}, pollfd{changes_, POLLIN, 0}};
      const int ready = poll(files.data(), files.size(), changed || !gone_.empty() ? kQuietMilliseconds : -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) fail("files cannot be watched");
      if (files[0].revents != 0) return false;
      if (read_events()) changed = true;
      if (std::erase_if(gone_, [&](const fs::path& folder) { return add(folder); }) > 0) changed = true;
      if (ready == 0 && changed && gone_.empty()) return true;
    }
  }

  /// Consumes the events that have arrived, and notes folders that were renamed or removed. Returns whether there were
  /// any.
  bool read_events() {
    std::array<char, 4096> events;
    bool any = false;
    for (ssize_t size; (size = read(changes_, events.data(), events.size())) > 0; any = true)
      for (ssize_t at = 0; at < size;) {
        inotify_event event{};
        std::memcpy(&event, events.data() + at, sizeof(event));
        at += static_cast<ssize_t>(sizeof(event) + event.len);
        const auto folder = folders_.find(event.wd);
        if ((event.mask & (IN_MOVE_SELF | IN_DELETE_SELF)) == 0 || folder == folders_.end()) continue;
        std::cout << "modgen: " << folder->second.string() << " is gone; waiting for it\n" << std::flush;
        inotify_rm_watch(changes_, event.wd);
        gone_.push_back(folder->second);
        folders_.erase(folder);
      }
    return any;
  }

  /// Generates each stale family separately, so that an error in one does not affect the others. Failed families are
  /// retried at the next change.
  void generate_stale() {
    std::error_code gone;  // it is renamed at this moment, which wait_for_change notices
    if (!fs::is_directory(options_.tree.root / "modular", gone)) return;
    const std::vector<std::string> families =
        options_.families.empty() ? families_in(options_.tree.root) : options_.families;
    TreeFiles files(options_.tree);
    for (const std::string& family : families) {
      if (!find_spec(options_.tree.root, options_.tree.shipped, family)) {
        std::cout << family << ": its spec is gone\n" << std::flush;
        continue;
      }
      if (is_current(files, family, options_.output_folder)) continue;
      const int exit_code = generate(family);
      std::cout << (options_.output_folder / (family + ".h")).string()
                << (exit_code == 0 ? ": generated\n" : ": left as it was\n") << std::flush;
    }
  }

  int generate(const std::string& family) {
    std::vector<std::string> words = {options_.generate};
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    words.push_back(family);
    const Ending ending = Program(std::move(words), Program::Streams::inherited).wait();
    if (ending.signal != 0) std::cerr << "modgen " << describe(ending) << "\n";
    return ending.exit_code;
  }

  const WatchOptions& options_;
  FileDescriptor signals_, changes_;
  std::map<int, fs::path> folders_;  // by watch
  std::vector<fs::path> gone_;       // folders to watch that do not exist
};

}  // namespace

int watch(const WatchOptions& options) { return Watch(options).run(); }

}  // namespace modgen
