// Work beside this process's own, in a copy of it: a launcher of another job, say.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace modular {

/// A child that fork(2) makes, so that it need not load the program again and begins with what is known here. It has a
/// process group of its own, none of this process's files, whose locks it would hold, and ends when the thread that
/// began it does.
class BackgroundTask {
 public:
  /// Returns the exit status; what it puts into `answer` is given to the parent.
  using Work = std::function<int(std::string& answer)>;

  struct Outcome {
    int status = 0;      // of the work, 1 where it threw, or 128 + the signal that ended it
    std::string answer;  // what it was given, or what the exception says
  };

  /// Begins `work`; what it prints goes to `log`. This process must have no other thread that holds what the work needs
  /// (memory is taken care of). Throws std::runtime_error where that cannot be begun.
  BackgroundTask(const std::filesystem::path& log, const Work& work);
  /// Ends it by SIGKILL where it still runs.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Readable once it has ended.
  int descriptor() const { return end_; }
  void signal(int number) const;
  /// What came of it, once it has ended; asked until then.
  std::optional<Outcome> outcome();

 private:
  pid_t process_ = -1;
  int end_ = -1, answer_ = -1;
};

}  // namespace modular
