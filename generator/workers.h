// Child processes that continue from the current state of this one, each with its part of the work. They share what was
// done so far; what they allocate is freed when they end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "generator/process.h"

namespace modgen {

class Workers {
 public:
  /// At most `at_once` children run at a time. The process must have one thread where it starts one. Children that
  /// still run at the end of the scope are killed.
  explicit Workers(size_t at_once) : at_once_(at_once) {}

  /// Starts a child; where `at_once` are running, it waits for one of them to end first. True in the child. Throws
  /// std::runtime_error where one that ended has failed, or was ended by a signal.
  bool start();
  size_t started() const { return results_.size(); }
  bool is_child() const { return file_.is_open(); }
  /// How many have been started and have not ended.
  size_t running();
  /// Waits for all, and returns what they handed over, in the order in which they were started.
  std::vector<std::string> results();

  /// In a child: ends it, and hands `result` to the parent.
  [[noreturn]] void succeed(std::string_view result) const;
  /// In a child: ends it; the parent throws `message`.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  struct Child {
    size_t number;
    Process process;
    FileDescriptor file;  // in memory, for its result
  };
  /// Reads the results of those that have ended, after waiting for one where `wait`.
  void collect(bool wait);

  size_t at_once_;
  std::vector<Child> children_;
  std::vector<std::string> results_;
  FileDescriptor file_;  // of a child
};

}  // namespace modgen
