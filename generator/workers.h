// Child processes that go on from where this one stands, each with its part of the work. What was parsed so far they
// share; what they allocate goes with them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modgen {

class Workers {
 public:
  /// Starts `count` children, `at_once` at a time. Returns in each of them, with its number, and in this process when
  /// all have ended, with nothing. The process must have one thread. Throws std::runtime_error where a child failed.
  std::optional<size_t> split(size_t count, size_t at_once);

  bool is_child() const { return channel_ >= 0; }
  /// In a child: ends it, and hands `result` to the parent.
  [[noreturn]] void succeed(std::string_view result) const;
  /// In a child: ends it; the parent's split throws `message`.
  [[noreturn]] void fail(std::string_view message) const;

  /// What the children handed over, by their numbers.
  const std::vector<std::string>& results() const { return results_; }

 private:
  std::vector<std::string> results_;
  int channel_ = -1;  // a child's to its parent
};

}  // namespace modgen
