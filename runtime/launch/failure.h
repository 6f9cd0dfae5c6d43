// What is left of a rank that died: the file in which it says why, in torchelastic's format.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace modular {

/// A rank's own account of its end.
struct FailureReport {
  std::string message;       // one sentence, or what the exception says
  std::string place;         // "file.cc:12" where the exception knows it; may be empty
  std::string phase;         // what the rank was doing, e.g. "step 12"; may be empty
  std::string waiting;       // the collective that it waited for; may be empty
  int64_t nanoseconds = 0;   // since 1970
  bool consequence = false;  // a collective failed, as it does when another rank went away
};

/// Writes the report to `file` as JSON that torchrun's agent reads too (TORCHELASTIC_ERROR_FILE).
void write_failure(const std::string& file, const FailureReport& report);

/// Reads what a rank, or any program under torchelastic's conventions, left. Nothing where there is no such file.
std::optional<FailureReport> read_failure(const std::string& file);

/// Ends this process as a rank that failed for the reason `why`: reported, and without unwinding.
[[noreturn]] void end_rank(const std::string& why);

/// An exception's message for a user: of libtorch's errors without the stack, of those of the file system the cause
/// after the paths that they are about, and else what().
std::string get_message(const std::exception& error);

/// Runs `body` as a rank's whole work and returns its value. An exception that leaves `body` ends the process at once
/// with status 1, without unwinding, since destructors of process groups wait for peers; it is written to the file that
/// TORCHELASTIC_ERROR_FILE names and printed. For that no caller, up to main, may have a try block around it.
int run_rank(const std::function<int()>& body);

}  // namespace modular
