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
      if (inotify_add_watch(changes_, folder.c_str(),
                            IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) < 0)
        fail(folder.string() + " cannot be watched");
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

  /// Waits until files have changed and then stay unchanged for a moment, as editors write several times. Returns false
  /// on a signal.
  bool wait_for_change() {
    constexpr int kQuietMilliseconds = 50;
    bool changed = false;
    for (;;) {
      std::array<pollfd, 2> files = {pollfd{signals_, POLLIN, 0}, pollfd{changes_, POLLIN, 0}};
      const int ready = poll(files.data(), files.size(), changed ? kQuietMilliseconds : -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) fail("files cannot be watched");
      if (files[0].revents != 0) return false;
      if (ready == 0) return true;
      std::array<char, 4096> events;
      while (read(changes_, events.data(), events.size()) > 0) changed = true;
    }
  }

  /// Generates each stale family separately, so that an error in one does not affect the others. Failed families are
  /// retried at the next change.
  void generate_stale() {
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
};

}  // namespace

int watch(const WatchOptions& options) { return Watch(options).run(); }

}  // namespace modgen
