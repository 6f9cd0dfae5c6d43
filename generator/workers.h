// Child processes that fork from the current state of this one, each with its part of the work. They share the memory
// of the work so far; their own allocations are freed when they end.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "generator/process.h"

namespace modgen {

class Workers {
 public:
  /// At most `at_once` children run at a time. The process must be single-threaded when it starts one. Children that
  /// still run at the end of the scope are killed.
  explicit Workers(size_t at_once) : at_once_(at_once) {}

  /// Starts a child; if `at_once` are running, waits for one of them to end first. True in the child. Throws
  /// std::runtime_error if an ended child failed or was ended by a signal.
  bool start();
  size_t started() const { return results_.size(); }
  bool is_child() const { return file_.is_open(); }
  /// Number of running children.
  size_t running();
  /// Waits for all children and returns their results, in the order in which they were started.
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
  /// Reads the results of children that have ended. With `wait`, waits for one first.
  void collect(bool wait);

  size_t at_once_;
  std::vector<Child> children_;
  std::vector<std::string> results_;
  FileDescriptor file_;  // result file of this child
};

}  // namespace modgen
