// Child processes that go on from where this one stands, each with its part of the work. What was done so far they
// share; what they allocate goes with them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace modgen {

class Workers {
 public:
  /// At most `at_once` children run at a time. The process must have one thread where it starts one.
  explicit Workers(size_t at_once) : at_once_(at_once) {}
  ~Workers();  // ends the children that run
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Starts a child, after waiting for another's end where `at_once` run. True in the child. Throws std::runtime_error
  /// where one that ended has failed.
  bool start();
  size_t started() const { return results_.size(); }
  bool is_child() const { return file_ >= 0; }
  /// How many have been started and have not ended.
  size_t running();
  /// Waits for all. What they handed over, in the order of their starts.
  std::vector<std::string> results();

  /// In a child: ends it, and hands `result` to the parent.
  [[noreturn]] void succeed(std::string_view result) const;
  /// In a child: ends it; the parent throws `message`.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  struct Child {
    size_t number;
    pid_t process;
    int ended;  // file that can be read when it has
    int file;   // in memory, for its result
  };
  /// Takes up those that have ended, after waiting for one where that is asked.
  void collect(bool wait);

  size_t at_once_;
  std::vector<Child> children_;
  std::vector<std::string> results_;
  int file_ = -1;  // of a child
};

}  // namespace modgen
